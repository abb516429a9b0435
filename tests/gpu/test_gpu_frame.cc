/* test_gpu_frame.cc - the common base of all ops: the choice of kernels or the reference, buffers,
 * weights that stay on the device, and error messages. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpu/op/gpu.h"
#include "gpu/op/memory_fit.h"
#include "ref/base/mem.h"
#include "tests/gpu/gpu_op.h"

/* --- kernels or the reference ----------------------------------------------------------------- */
TEST(test_computes)
{
    sb_knobs knobs, exact;
    size_t kernels = 0;
    sb_knobs_exact(&exact);
    for (int op = 0; op < SB_OP_COUNT; op++) {
        knobs = sm121();
        const int has = sb_gpu_computes(static_cast<sb_op>(op), &knobs);
        kernels += has != 0;
        assert_false(sb_gpu_computes(static_cast<sb_op>(op), &exact));
        assert_int_equal(sb_knobs_profile(&knobs, "sm121-w4a4", nullptr), SB_OK);
        assert_int_equal(sb_gpu_computes(static_cast<sb_op>(op), &knobs), has);
        assert_int_equal(sb_knobs_set(&knobs, "mtp_hidden=normed", nullptr), SB_OK);
        assert_int_equal(sb_gpu_computes(static_cast<sb_op>(op), &knobs), has);
        assert_int_equal(sb_knobs_set(&knobs, "softplus=log_exp", nullptr), SB_OK);
        assert_false(sb_gpu_computes(static_cast<sb_op>(op), &knobs));
    }
    assert_true(kernels > 0);
}

/* Under other knobs the reference computes an op, and its errors are not the kernels'. */
TEST(test_reference)
{
    float x[5] = {1.0f, 2.0f, 0x1.000002p0f, -4.0f, 0x1p-30f}, y[5] = {0}, out[5];
    sb_knobs exact;
    sb_knobs_exact(&exact);
    const sb_add_args args = {x, y, 5, out, nullptr};
    assert_int_equal(ops()->add(&exact, &args), SB_OK);
    assert_memory_equal(x, out, sizeof x);
    assert_null(sb_backend_emu()->why());
    assert_string_equal(sb_backend_emu()->name, "emu");
}

/* --- buffers ---------------------------------------------------------------------------------- */
static __global__ void all_but(sb_global<const int> in, sb_global<int> out, unsigned missing)
{
    sb_launch_wait();
    if (threadIdx.x != missing)
        out[threadIdx.x] = in[threadIdx.x] + 1;
}

static sb_status copy(sb_gpu *gpu, unsigned missing, int *in, int *out)
{
    sb_gpu_work work(gpu);
    const auto from = work.in("from", in, 32);
    const auto to = work.out("to", out, 32);
    SB_GPU_RUN(work, all_but, 1, 32, 0, from, to, missing);
    return work.finish();
}

TEST(test_buffers)
{
    sb_gpu *gpu = nullptr;
    int in[32], out[32];
    for (int i = 0; i < 32; i++)
        in[i] = out[i] = i;
    assert_int_equal(sb_gpu_open(&gpu, nullptr), SB_OK);
    assert_int_equal(copy(gpu, 32, in, out), SB_OK);
    for (int i = 0; i < 32; i++)
        assert_int_equal(out[i], i + 1);
    assert_int_equal(copy(gpu, 32, out, out), SB_OK); /* input and output may be the same array of
                                                       * the host */
    assert_int_equal(out[31], 33);
    assert_int_equal(copy(gpu, 9, in, out), SB_ERR_DIFF);
    assert_string_equal(sb_gpu_said(gpu)->text,
                        "no kernel has written byte 36 of 128 of buffer to");
    assert_int_equal(out[31], 33); /* nothing has been copied to the host */
    sb_gpu_close(gpu);
}

TEST(test_too_many)
{
    sb_gpu *gpu = nullptr;
    int word = 0;
    assert_int_equal(sb_gpu_open(&gpu, nullptr), SB_OK);
    {
        sb_gpu_work work(gpu);
        for (int i = 0; i < 25; i++)
            work.in("word", &word, 1);
        assert_int_equal(work.finish(), SB_ERR_USAGE);
        assert_string_equal(sb_gpu_said(gpu)->text, "buffer word is one more than an op may have");
    }
    sb_gpu_close(gpu);
}

/* --- weights ---------------------------------------------------------------------------------- */
static size_t packed;

static sb_status pack_index(const sb_matrix *m, size_t first, size_t bytes, unsigned char *to)
{
    packed++;
    if (m->cols == 13)
        return SB_ERR_UNSUPPORTED;
    for (size_t i = 0; i < bytes; i++)
        to[i] = static_cast<unsigned char>((first + i) * 7 + m->first_row);
    return SB_OK;
}

static __global__ void is_packed(sb_global<const unsigned char> in, sb_global<int> out,
                                 unsigned first_row)
{
    sb_launch_wait();
    const unsigned char want = static_cast<unsigned char>(threadIdx.x * 7 + first_row);
    const unsigned char have = in[threadIdx.x];
    out[threadIdx.x] = have == want;
}

static void look(sb_gpu *gpu, const sb_matrix *m)
{
    int right[20] = {0};
    sb_gpu_work work(gpu);
    const auto bytes = work.kept<unsigned char>("weights", m, pack_index, 20, 4);
    const auto out = work.out("right", right, 20);
    SB_GPU_RUN(work, is_packed, 1, 20, 0, bytes, out, m->first_row);
    assert_int_equal(work.finish(), SB_OK);
    for (const int one : right)
        assert_true(one);
}

/* Enough weights to grow the table; twice, and once more after they were forgotten. */
TEST(test_weights)
{
    enum { MATRICES = 700 };
    static const unsigned char bytes[64] = {0};
    sb_gpu *gpu = nullptr;
    sb_matrix m = {bytes, SB_FORMAT_bf16, 4, 5, nullptr, 0, sb_quant()};
    assert_int_equal(sb_gpu_open(&gpu, nullptr), SB_OK);
    packed = 0;
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < MATRICES; i++) {
            m.data = bytes + i % 7;
            m.first_row = i;
            look(gpu, &m);
        }
        assert_int_equal(packed, round < 2 ? MATRICES : 2 * MATRICES);
        if (round == 1)
            sb_gpu_forget_weights(gpu);
    }
    m.cols = 13;
    {
        sb_gpu_work work(gpu);
        work.kept<int>("weights", &m, pack_index, 4, 4);
        assert_int_equal(work.finish(), SB_ERR_UNSUPPORTED);
        assert_string_equal(sb_gpu_said(gpu)->text, "weights: its matrix could not be packed");
    }
    m.quant.scales = bytes;
    {
        sb_gpu_work work(gpu);
        work.values("norm", &m);
        assert_int_equal(work.finish(), SB_ERR_UNSUPPORTED);
        assert_string_equal(sb_gpu_said(gpu)->text,
                            "norm is quantized, and no kernel reads it in this form");
    }
    sb_gpu_close(gpu);
}

/* At every failing allocation: a status is returned, and no memory is lost. */
TEST(test_memory)
{
    const sb_matrix table = op_matrix("table", 1, 1.0f, SB_FORMAT_bf16, 4, 8);
    const uint32_t tokens[2] = {3, 1};
    float out[16];
    const sb_knobs knobs = sm121();
    const sb_embed_args args = {&table, tokens, 2, out};
    sb_status status = SB_ERR_MEMORY;
    unsigned long n = 0;
    assert_int_equal(ops()->embed(&knobs, &args), SB_OK); /* now the emulator exists */
    while (status != SB_OK && n < 100) {
        sb_gpu_forget(sb_backend_emu());
        sb_alloc_fail_at(++n);
        status = ops()->embed(&knobs, &args);
        sb_alloc_fail_at(0);
        assert_true(status == SB_OK || status == SB_ERR_MEMORY);
        assert_true(status == SB_OK || strstr(said(), "out of memory"));
    }
    assert_true(n > 3 && n < 100);
    sb_gpu_forget(sb_backend_emu());
    free(const_cast<unsigned char *>(table.data));
}

/* --- room ------------------------------------------------------------------------------------- */
static sb_status available(const char *text, uint64_t *bytes, sb_error *err)
{
    const char *base = getenv("TMPDIR");
    char path[4096];
    const int length =
        snprintf(path, sizeof path, "%s/samebit-meminfo-XXXXXX", base ? base : "/tmp");
    assert_in_range(length, 1, sizeof path - 1);
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(::close(fd), 0);
    const sb_status status = sb_gpu_available(path, bytes, err);
    unlink(path);
    return status;
}

TEST(test_room)
{
    sb_error err;
    uint64_t bytes = 0;
    assert_int_equal(
        available("MemTotal:  200 kB\nMemFree: 1 kB\nMemAvailable:   123456 kB\n", &bytes, &err),
        SB_OK);
    assert_int_equal(bytes, 123456u * 1024u);
    assert_int_equal(available("MemTotal:  200 kB\n", &bytes, &err), SB_ERR_INPUT);
    assert_non_null(strstr(err.text, "has no MemAvailable"));
    assert_int_equal(sb_gpu_available("/nowhere/meminfo", &bytes, &err), SB_ERR_IO);
    const uint64_t one = 1ull << 30;
    assert_int_equal(sb_gpu_fits(one, 2 * one, &err), SB_OK);
    assert_int_equal(sb_gpu_fits(one + 1, 2 * one, &err), SB_ERR_MEMORY);
    assert_string_equal(err.text, "the weights have 1.0 GB, but only 2.1 GB of memory are "
                                  "available, and a run needs another 1 GB for itself");
    assert_int_equal(sb_gpu_fits(0, one - 1, &err), SB_ERR_MEMORY);
}

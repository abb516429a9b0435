/* test_gpu_experts_kept.cc - Y-63: the weights of several matrices are packed once, whether the
 * calls ask for them together or one by one. */
#include "gpu/op/gpu.h"
#include "ref/base/mem.h"
#include "tests/lib/suite.h"

namespace
{

enum { MATRICES = 400, BYTES = 32 };

size_t packed;
const unsigned char bytes[8] = {0};

sb_status pack_index(const sb_matrix *m, size_t first, size_t count, unsigned char *to)
{
    packed += first == 0;
    for (size_t i = 0; i < count; i++)
        to[i] = static_cast<unsigned char>((first + i) * 7 + m->first_row);
    return m->first_row == 1000 ? SB_ERR_UNSUPPORTED : SB_OK;
}

/* right[i]: byte i is as expected for the matrices from `first` on. */
__global__ void look_at(sb_global<const unsigned char> in, sb_global<int> right, unsigned count,
                        unsigned first)
{
    sb_launch_wait();
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
        const unsigned char have = in[i];
        right[i] = have == static_cast<unsigned char>(i % BYTES * 7 + i / BYTES + first);
    }
}

struct rig {
    sb_gpu *gpu;
    sb_matrix of[MATRICES];
};

void open(rig *r)
{
    assert_int_equal(sb_gpu_open(&r->gpu, nullptr), SB_OK);
    for (uint32_t i = 0; i < MATRICES; i++) {
        r->of[i] = sb_matrix();
        r->of[i].data = bytes + i % 7;
        r->of[i].first_row = i;
    }
    packed = 0;
}

/* Asks for some matrices and reads all of their bytes, but none behind them. */
sb_status ask(rig *r, unsigned first, unsigned count)
{
    static int right[MATRICES * BYTES + 1];
    const unsigned all = count * BYTES;
    sb_gpu_work work(r->gpu);
    const sb_gpu_matrices of = {&r->of[first], sizeof(sb_matrix), count};
    const auto in = count == 1
                        ? work.kept<unsigned char>("one", &r->of[first], pack_index, BYTES, 4)
                        : work.kept_all<unsigned char>("all", of, pack_index, BYTES, 4);
    const auto out = work.out("right", right, all);
    SB_GPU_RUN(work, look_at, 1, 32, 0, in, out, all, first);
    const sb_status status = work.finish();
    for (unsigned i = 0; i < all && !status; i++)
        assert_true(right[i]);
    return status;
}

sb_status beyond(rig *r, unsigned which)
{
    int right[BYTES + 1];
    sb_gpu_work work(r->gpu);
    const auto in = work.kept<unsigned char>("one", &r->of[which], pack_index, BYTES, 4);
    const auto out = work.out("right", right, BYTES + 1);
    SB_GPU_RUN(work, look_at, 1, 32, 0, in, out, BYTES + 1u, which);
    return work.finish();
}

TEST(test_once)
{
    static rig r;
    open(&r);
    assert_int_equal(ask(&r, 0, MATRICES), SB_OK);
    assert_int_equal(packed, MATRICES);
    assert_int_equal(ask(&r, 0, MATRICES), SB_OK);
    for (unsigned i = 0; i < MATRICES; i++)
        assert_int_equal(ask(&r, i, 1), SB_OK);
    assert_int_equal(ask(&r, 100, 50), SB_OK); /* a part of them */
    assert_int_equal(packed, MATRICES);
    assert_int_equal(beyond(&r, 7), SB_ERR_DIFF); /* the next matrix is out of bounds */
    sb_gpu_forget_weights(r.gpu);
    assert_int_equal(ask(&r, 3, 1), SB_OK);
    assert_int_equal(packed, MATRICES + 1);
    sb_gpu_close(r.gpu);
}

/* Single matrices first: they are packed again with the others, and their old memory is freed. */
TEST(test_single_first)
{
    static rig r;
    open(&r);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(ask(&r, i, 1), SB_OK);
    assert_int_equal(ask(&r, 10, 30), SB_OK);
    assert_int_equal(packed, 50);
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(ask(&r, i, 1), SB_OK);
    assert_int_equal(packed, 50);
    assert_int_equal(ask(&r, 5, 10), SB_OK); /* from both groups */
    assert_int_equal(packed, 60);
    assert_int_equal(ask(&r, 20, 1), SB_OK);
    assert_int_equal(ask(&r, 14, 1), SB_OK);
    assert_int_equal(packed, 60);
    sb_gpu_close(r.gpu);
}

/* A failure keeps the weights that were there. */
TEST(test_failure)
{
    static rig r;
    open(&r);
    assert_int_equal(ask(&r, 0, 1), SB_OK);
    r.of[5].first_row = 1000;
    assert_int_equal(ask(&r, 0, 8), SB_ERR_UNSUPPORTED);
    r.of[5].first_row = 5;
    packed = 0;
    assert_int_equal(ask(&r, 0, 1), SB_OK);
    assert_int_equal(packed, 0);
    sb_status status = SB_ERR_MEMORY;
    unsigned long n = 0;
    while (status && n < 50) {
        sb_alloc_fail_at(++n);
        status = ask(&r, 0, MATRICES);
        sb_alloc_fail_at(0);
        assert_true(status == SB_OK || status == SB_ERR_MEMORY);
    }
    assert_true(n > 2 && n < 50);
    sb_gpu_close(r.gpu);
}

} // namespace

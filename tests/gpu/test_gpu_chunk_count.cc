/* test_gpu_chunk_count.cc - the bytes that the two kernels of the delta rule in chunks read and
 * write in global memory (Y-98): the data passed between them, and the data that blocks read
 * again. */
#include <stdio.h>

#include "gpu/emu/count.h"
#include "gpu/kernel/delta_carry.cuh"
#include "ref/formats/format.h"
#include "tests/gpu/delta_call.h"
#include "tests/lib/suite.h"

/* The buffers of one call. Those between the kernels have no values at first. */
class chunk_call
{
  public:
    chunk_call(const shape &s, size_t rows, bool rounded) : one(rounded)
    {
        const sb_delta_rule_args a = call_of(s, rows, false, 1.0);
        const size_t keys = rows * s.k_heads * s.dk, gates = rows * s.v_heads;
        const size_t state = s.v_heads * s.dk * s.dv, chunks = (rows + 63) / 64;
        const size_t wide = (s.dv + 31) / 32 * 32, deep = (s.dk + 15) / 16 * 16;
        float *const to = test_output(state);
        for (size_t i = 0; rounded && i < keys; i++) {
            const_cast<float *>(a.q)[i] = sb_round_to(SB_FORMAT_bf16, a.q[i]);
            const_cast<float *>(a.k)[i] = sb_round_to(SB_FORMAT_bf16, a.k[i]);
        }
        job.call.q = in("q", a.q, keys);
        job.call.k = in("k", a.k, keys);
        job.call.v = in("v", a.v, (rows - 1) * a.v_stride + s.v_heads * s.dv);
        job.call.g = in("g", a.g, gates);
        job.call.beta = in("beta", a.beta, gates);
        job.call.from = in("state", a.state, state);
        job.call.to = sb_global<float>(open("next", to, 4 * state, SB_EMU_OUTPUT));
        job.call.out = sb_global<float>(open("out", a.out, 4 * gates * s.dv, SB_EMU_OUTPUT));
        job.call.v_stride = static_cast<uint32_t>(a.v_stride);
        job.call.rows = static_cast<uint32_t>(rows);
        job.call.k_heads = static_cast<uint32_t>(s.k_heads);
        job.call.v_heads = static_cast<uint32_t>(s.v_heads);
        job.call.dk = static_cast<uint32_t>(s.dk);
        job.call.dv = static_cast<uint32_t>(s.dv);
        job.scale = 1.0f;
        job.chunks = static_cast<uint32_t>(chunks);
        job.columns = static_cast<uint32_t>(wide);
        job.keys = static_cast<uint32_t>(deep);
        job.pairs = s.dk % 2 == 0 && s.dv % 2 == 0;
        job.factors = sb_global<float2>(between("factors", s.v_heads * chunks * 64 * 8));
        job.u = sb_global<uint4>(between("U", s.v_heads * chunks * 64 * wide * 2));
        job.w = sb_global<uint4>(between("W", s.v_heads * chunks * 64 * deep * 2));
        job.p = sb_global<uint4>(between("P", s.v_heads * chunks * 5120));
        job.q = sb_global<uint4>(between("queries", s.k_heads * chunks * 64 * deep * 2));
        job.k = sb_global<uint4>(between("keys", s.k_heads * chunks * 64 * deep * 2));
    }
    ~chunk_call()
    {
        while (count > 0) {
            sb_emu_region_close(&regions[--count]);
            free(owned[count]);
        }
    }
    chunk_call(const chunk_call &) = delete;
    chunk_call &operator=(const chunk_call &) = delete;

    void run(sb_emu_counts *counts)
    {
        static sb_emu *const emulator = sb_emu_new(0);
        sb_queue queue = {emulator, &err};
        const dim3 chunks(job.chunks, job.call.v_heads);
        const dim3 columns(job.columns / SB_CARRY_COLUMNS, job.call.v_heads);
        sb_status status;
        sb_emu_count(emulator, counts);
        if (one) {
            status = SB_LAUNCH(&queue, (sb_delta_chunk_kernel<float, 1>), chunks, 128, 0, job);
            if (status == SB_OK)
                status =
                    SB_LAUNCH(&queue, (sb_delta_carry_kernel<float, 128, 1>), columns, 128, 0, job);
        } else {
            status = SB_LAUNCH(&queue, (sb_delta_chunk_kernel<float, 3>), chunks, 128, 0, job);
            if (status == SB_OK)
                status =
                    SB_LAUNCH(&queue, (sb_delta_carry_kernel<float, 128, 3>), columns, 128, 0, job);
        }
        sb_emu_count(emulator, nullptr);
        if (status != SB_OK)
            fail_msg("%s", err.text);
        for (size_t i = 0; i < count; i++) /* Y-13; queries and keys in pieces are not passed on */
            if (regions[i].state && !regions[i].input && (one || i + 2 < count))
                assert_int_equal(sb_emu_unset(&regions[i], 0), regions[i].bytes);
    }

  private:
    enum { MOST = 16 };
    sb_chunk_job<float> job = {};
    bool one;
    sb_error err = {};
    sb_emu_region regions[MOST];
    void *owned[MOST] = {};
    size_t count = 0;

    sb_emu_region *open(const char *name, const float *host, size_t bytes, sb_emu_use use)
    {
        sb_emu_region *region = &regions[count++];
        assert_true(count <= MOST);
        assert_int_equal(
            sb_emu_region_counted(region, name, const_cast<float *>(host), bytes, use, &err),
            SB_OK);
        return region;
    }
    sb_global<const float> in(const char *name, const float *host, size_t n)
    {
        return sb_global<const float>(open(name, host, n * sizeof(float), SB_EMU_INPUT));
    }
    sb_emu_region *between(const char *name, size_t bytes)
    {
        void *room = sb_alloc(1, bytes);
        assert_non_null(room);
        owned[count] = room;
        return open(name, static_cast<float *>(room), bytes, SB_EMU_OUTPUT);
    }
};

struct moved {
    const char *name;
    uint64_t read, written; /* bytes */
};

/* Kernels are counted under the name used in the launch. */
static const char *name_of(bool one, bool second)
{
    if (second)
        return one ? "(sb_delta_carry_kernel<float, 128, 1>)"
                   : "(sb_delta_carry_kernel<float, 128, 3>)";
    return one ? "(sb_delta_chunk_kernel<float, 1>)" : "(sb_delta_chunk_kernel<float, 3>)";
}

static void is(const sb_emu_counts &counts, const char *kernel, const moved &want)
{
    const sb_emu_tally got = sb_emu_counted(&counts, kernel, want.name);
    if (got.read != want.read || got.written != want.written)
        fail_msg("%s, %s: %llu bytes read, %llu written; not %llu and %llu", kernel, want.name,
                 static_cast<unsigned long long>(got.read),
                 static_cast<unsigned long long>(got.written),
                 static_cast<unsigned long long>(want.read),
                 static_cast<unsigned long long>(want.written));
}

/* Keys with one and with more heads; rows that fill their chunks or not; columns that fill their
 * block or not. */
static const shape shapes[] = {{1, 2, 128, 128}, {1, 1, 72, 40}, {2, 2, 80, 64}};

/* The bytes of the rows (R rows, H heads, G key heads, dk and dv), and of the data between the
 * kernels (C chunks; K and V: dk and dv padded; V / 32 blocks have the columns of a head). */
TEST_WITH(test_bytes, NULL, test_release)
{
    for (const shape &s : shapes)
        for (const size_t rows : {size_t(64), size_t(70), size_t(128)})
            for (const bool one : {true, false}) {
                static sb_emu_counts counts;
                counts = sb_emu_counts();
                {
                    chunk_call call(s, rows, one);
                    call.run(&counts);
                }
                const uint64_t R = rows, H = s.v_heads, G = s.k_heads, C = (rows + 63) / 64;
                const uint64_t K = (s.dk + 15) / 16 * 16, V = (s.dv + 31) / 32 * 32, J = V / 32;
                const uint64_t keys = 4 * R * H * s.dk, kept = one ? 128 * C * K : 0;
                const uint64_t values = 4 * R * H * s.dv, state = 4 * H * s.dk * s.dv;
                const char *first = name_of(one, false), *second = name_of(one, true);
                for (const moved &m :
                     {moved{"q", keys, 0}, moved{"k", 2 * keys, 0}, moved{"v", values, 0},
                      moved{"g", 4 * R * H, 0}, moved{"beta", 4 * R * H, 0},
                      moved{"factors", 0, 512 * C * H}, moved{"U", 0, 128 * C * V * H},
                      moved{"W", 0, 128 * C * K * H}, moved{"P", 0, 5120 * C * H},
                      moved{"queries", 0, kept * G}, moved{"keys", 0, kept * G}})
                    is(counts, first, m);
                for (const moved &m :
                     {moved{"q", one ? 0 : keys * J, 0}, moved{"k", one ? 0 : keys * J, 0},
                      moved{"factors", 3072 * C * H * J, 0}, moved{"U", 128 * C * V * H, 0},
                      moved{"W", 128 * C * K * H * J, 0}, moved{"P", 5120 * C * H * J, 0},
                      moved{"queries", kept * H * J, 0}, moved{"keys", kept * H * J, 0},
                      moved{"state", state, 0}, moved{"next", 0, state}, moved{"out", 0, values}})
                    is(counts, second, m);
                test_release(nullptr);
            }
}

/* For one chunk of a head of 128 by 128: the numbers in docs/gpu.md and docs/profiles.md. */
TEST_WITH(test_instructions, NULL, test_release)
{
    for (const bool one : {true, false}) {
        static sb_emu_counts counts;
        counts = sb_emu_counts();
        {
            chunk_call call({1, 1, 128, 128}, 64, one);
            call.run(&counts);
        }
        const uint64_t first = sb_emu_counted(&counts, name_of(one, false), "sb_mma_bf16").times;
        const uint64_t second = sb_emu_counted(&counts, name_of(one, true), "sb_mma_bf16").times;
        assert_int_equal(first, one ? 960 : 3200);
        assert_int_equal(second, one ? 1696 : 3744);
        assert_int_equal(sb_emu_counted(&counts, name_of(one, false), "ldmatrix").times, 160);
        assert_int_equal(sb_emu_counted(&counts, name_of(one, true), "ldmatrix").times, 464);
        test_release(nullptr);
    }
}

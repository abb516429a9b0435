/* test_gpu_attention_wide.cc - attention of many rows, with blocks of four tiles: the same bits as
 * with blocks of one tile, counts of the bytes read, the choice of the block size, planted
 * faults. */
#include "tests/gpu/attention_call.h"

#include "gpu/emu/count.h"
#include "tests/gpu/emu_bench.h"
#include "tests/lib/suite.h"

/* --- the bits --------------------------------------------------------------------------------- */
static size_t outputs_of(const sb_attention_args &a)
{
    return a.rows * a.heads * a.hd;
}

/* Compares the call with blocks of one tile and of four. */
static bool same_in_wide_blocks(const sb_attention_args &a, const cache &kv, uint64_t seed)
{
    sb_attention_args many = a;
    many.out = test_output(outputs_of(a));
    wide_now = false;
    runs(SB_OP_attention, a, seed, knobs_of_cache(kv));
    wide_now = true;
    runs(SB_OP_attention, many, seed, knobs_of_cache(kv));
    return same_bits(a.out, many.out, outputs_of(a));
}

static void compare(const shape &s, const cache &kv, size_t first, size_t rows, bool split)
{
    split_now = split;
    if (!same_in_wide_blocks(call_of(s, kv, first, rows), kv, rows + first))
        fail_msg("%zu and %zu heads of %zu, %zu rows at %zu: bits differ", s.heads, s.kv_heads,
                 s.hd, rows, first);
    assert_int_equal(test_release(nullptr), 0);
}

/* Groups of 1 to 8 and more, also sizes that do not divide a tile, and every size of heads. */
static const shape shapes[] = {{1, 1, 64},  {2, 1, 128}, {3, 1, 64}, {4, 1, 64}, {5, 1, 64},
                               {6, 1, 64},  {7, 1, 64},  {8, 1, 64}, {9, 1, 64}, {4, 2, 64},
                               {16, 1, 64}, {20, 1, 64}, {3, 3, 64}, {1, 1, 256}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Up to 130 rows (all numbers with CHECK_ALL=1), at the beginning of a sequence or later, across
 * the end of a part or not. */
TEST_WITH(test_rows, NULL, test_release)
{
    static const size_t firsts[] = {0, 3, 200, 250};
    sb_backend_emu_history(0);
    for (size_t rows = 1; rows <= 130; rows++)
        if (check_all() || rows <= 18 || rows % 16 <= 1)
            compare(shapes[rows % SHAPES], rows % 3 ? plain : narrow, firsts[rows / 2 % 4], rows,
                    rows % 2 != 0);
    sb_backend_emu_history(1);
}

/* Heads of large models in groups of 8, 6 and 16, with one block per part or one for all. */
TEST_WITH(test_large_heads, NULL, test_release)
{
    sb_backend_emu_history(0);
    compare({16, 2, 256}, plain, 130, 9, false);
    compare({6, 1, 256}, narrow, 250, 23, true);
    compare({16, 1, 256}, plain, 0, 17, false);
    sb_backend_emu_history(1);
}

/* With the search for races. */
TEST_WITH(test_schedules, NULL, test_release)
{
    const shape s = {8, 1, 64};
    for (uint64_t seed = 0; seed < SCHEDULES; seed++) {
        split_now = seed % 2 != 0;
        const cache &kv = seed % 3 ? plain : narrow;
        assert_true(same_in_wide_blocks(call_of(s, kv, 235, 25), kv, seed));
        test_release(nullptr);
    }
}

/* Also within the bound of the reference. */
TEST_WITH(test_within, NULL, test_release)
{
    wide_now = true;
    split_now = false;
    is_within(SB_OP_attention, call_of(small, plain, 240, 40), 1, sm121());
}

/* --- bytes read ------------------------------------------------------------------------------- */
struct counted {
    uint64_t keys, values, queries;
};

/* The bytes that blocks of TILES tiles read in a call of 16 query heads of 256 elements, with 2 key
 * heads. */
template <class KV, int TILES> static counted bytes_read(uint32_t first, uint32_t rows)
{
    enum : uint32_t { HEADS = 16, KV_HEADS = 2, HD = 256 };
    const size_t queries = size_t(rows) * HEADS * HD, kept = size_t(first + rows) * KV_HEADS * HD;
    float *q = static_cast<float *>(room_for(queries, 4)), *out = test_output(queries);
    KV *codes = static_cast<KV *>(room_for(kept, sizeof(KV)));
    emu_bench e(rows);
    sb_emu_region of_q, of_keys, of_values;
    sb_attention_job<float, KV> job = {};
    const auto open = [&](sb_emu_region *region, const char *name, void *at, size_t bytes) {
        assert_int_equal(sb_emu_region_counted(region, name, at, bytes, SB_EMU_INPUT, &e.err),
                         SB_OK);
    };
    open(&of_q, "q", q, 4 * queries);
    open(&of_keys, "keys", codes, sizeof(KV) * kept);
    open(&of_values, "values", codes, sizeof(KV) * kept);
    job.q = sb_global<const float>(&of_q);
    job.keys = sb_global<const KV>(&of_keys);
    job.values = sb_global<const KV>(&of_values);
    job.out = e.out("out", out, queries);
    job.first = e.in("first", &first, 1);
    job.rows = rows;
    job.heads = HEADS;
    job.kv_heads = KV_HEADS;
    job.parts = 1;
    job.scale = job.key_scale = job.value_scale = 1.0f;
    sb_emu_counts counts = {};
    sb_emu_count(e.queue.emu, &counts);
    EMU_RUN(e, (sb_attention_kernel<float, KV, HD, false, TILES>),
            dim3(sb_gpu_blocks(rows * HEADS / KV_HEADS, TILES * SB_ATTENTION_ROWS), KV_HEADS),
            TILES * SB_ATTENTION_THREADS, (sb_attention_bytes<HD, TILES>()), job);
    sb_emu_count(e.queue.emu, nullptr);
    assert_true(e.complete());
    for (sb_emu_region *region : {&of_q, &of_keys, &of_values})
        sb_emu_region_close(region);
    free(codes);
    free(q);
    return {sb_emu_counted(&counts, nullptr, "keys").read,
            sb_emu_counted(&counts, nullptr, "values").read,
            sb_emu_counted(&counts, nullptr, "q").read};
}

/* Y-96: "A block reads the keys and values that one of its pairs sees, each once." */
template <class KV, int TILES> static counted expect_read(uint32_t first, uint32_t rows)
{
    const counted got = bytes_read<KV, TILES>(first, rows);
    const uint32_t each = TILES * SB_ATTENTION_ROWS / 8; /* the rows of a block */
    uint64_t positions = 0;
    for (uint32_t row = 0; row < rows; row += each)
        positions += first + (row + each < rows ? row + each : rows);
    assert_int_equal(got.keys, positions * 2 * 256 * sizeof(KV));
    assert_int_equal(got.values, got.keys);
    assert_int_equal(got.queries, rows * 16 * 256 * sizeof(float));
    return got;
}

TEST_WITH(test_read, NULL, test_release)
{
    const counted few = expect_read<uint16_t, 1>(0, 33), many = expect_read<uint16_t, 4>(0, 33);
    print_message("33 rows: keys read %llu bytes by blocks of one tile, %llu by blocks of four\n",
                  static_cast<unsigned long long>(few.keys),
                  static_cast<unsigned long long>(many.keys));
    expect_read<uint8_t, 4>(250, 10);
    expect_read<uint8_t, 1>(250, 3);
}

/* The prompt of docs/gpu.md. */
TEST_WITH(test_read_prompt, NULL, test_release)
{
    const counted few = expect_read<uint16_t, 1>(0, 128), many = expect_read<uint16_t, 4>(0, 128);
    print_message("128 rows: keys read %llu bytes by blocks of one tile, %llu by blocks of four\n",
                  static_cast<unsigned long long>(few.keys),
                  static_cast<unsigned long long>(many.keys));
}

/* --- the choice of the block size ------------------------------------------------------------- */
/* Whether a call of `rows` rows, with 16 query heads and 2 key heads, is divided like this. */
static bool rows_cut(size_t rows, size_t parts, bool split, bool wide)
{
    const cut as = cut_of(8 * rows, 2, parts);
    return as.split == split && as.wide == wide;
}

/* Steps and verifies have blocks of one tile, also over a long cache. Prompts have blocks of four
 * tiles if there are at least 32 such blocks. */
TEST_WITH(test_choice, NULL, test_release)
{
    assert_true(rows_cut(1, 1, false, false));
    for (size_t rows = 1; rows <= 9; rows++)
        assert_true(rows_cut(rows, 1024, true, false));
    assert_true(rows_cut(15, 1024, true, false));
    assert_true(rows_cut(16, 7, true, false));
    assert_true(rows_cut(16, 8, true, true));
    assert_true(rows_cut(94, 2, true, true));
    assert_true(rows_cut(95, 2, false, false));
    assert_true(rows_cut(120, 2, false, false));
    assert_true(rows_cut(121, 2, false, true));
    assert_true(rows_cut(128, 1, false, true));
    assert_true(rows_cut(4096, 1024, false, true));
}

/* --- faults ----------------------------------------------------------------------------------- */
TEST_WITH(test_faults, NULL, test_release)
{
    wide_now = true;
    split_now = false;
    for (const char *fault : {"attention_tile", "attention_mask", "attention_padding",
                              "attention_barrier", "attention_barrier4"})
        catches(fault, SB_OP_attention, call_of(small, plain, 0, 33), false, 1);
    for (const char *fault : {"attention_wait", "attention_barrier2", "attention_barrier5"})
        catches(fault, SB_OP_attention, call_of(small, plain, 50, 33), false, 1);
}

/* A separate program, because it includes a source of the program that attention_call.h changes. */
int main(int argc, char **argv)
{
    return suite_main(argc, argv);
}

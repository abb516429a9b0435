/* test_gpu_back.cc - the ways to roll back after a verify, counted: the bytes moved and the
 * operations of the delta rule of one layer, for each way. All ways leave the same bits. Prints the
 * table of docs/gpu.md. */
#include "tests/gpu/delta_call.h"

#include <stdio.h>

#include "gpu/emu/count.h"
#include "gpu/kernel/value.cuh"
#include "gpu/math/exp.h"

/* Counts multiplications, also fused ones: those of the rule, not those of the headers included
 * above. */
static uint64_t products;
#define __fmaf_rn(a, b, c) (products++, __fmaf_rn(a, b, c))
#define __fmul_rn(a, b) (products++, __fmul_rn(a, b))
#include "tests/gpu/back_kernels.cuh"
#include "tests/lib/suite.h"

enum way { SNAPSHOTS, SLOTS, REPLAY, RULE, LATER, WAYS };
static const char *const way_names[WAYS] = {
    "snapshots, as they are", "slots, the next call starting in one", "replay, as it is",
    "replay of the rule alone", "the same by the next call"};

/* The cost of one verify of n rows with m rows kept. In bytes, except for the launches and the
 * products. */
struct cost {
    uint64_t launches, state_read, state_written, rows_read, rows_written, products;
};

/* One layer that runs round after round. */
struct layer {
    shape s;
    way how;
    size_t n, m, state_size;
    sb_delta_rule_args rows; /* all rows */
    float *state, *spare, *slots[2], *out;
    float *k[2], *d[2], *decay[2]; /* kept from this round and the one before */
};

/* --- launches --------------------------------------------------------------------------------- */
static sb_emu *emulator;
static sb_error err;
static sb_queue queue;
static sb_emu_region regions[24];
static size_t opened;

static unsigned blocks_of(size_t n, size_t each)
{
    return static_cast<unsigned>((n + each - 1) / each);
}

/* Has one element if count is 0; no kernel reads it. */
static sb_emu_region *buffer(const char *name, const float *data, size_t count, sb_emu_use use)
{
    const size_t bytes = (count ? count : 1) * sizeof(float);
    sb_emu_region *region = &regions[opened++];
    assert_true(opened < sizeof regions / sizeof *regions);
    assert_int_equal(
        sb_emu_region_counted(region, name, const_cast<float *>(data), bytes, use, &err), SB_OK);
    return region;
}

static void done(sb_status status)
{
    if (status != SB_OK)
        fail_msg("%s", err.text);
    while (opened > 0)
        sb_emu_region_close(&regions[--opened]);
}

static sb_global<const float> input(const char *name, const float *data, size_t count)
{
    return sb_global<const float>(buffer(name, data, count, SB_EMU_INPUT));
}
static sb_global<float> output(const char *name, float *data, size_t count)
{
    return sb_global<float>(buffer(name, data, count, SB_EMU_OUTPUT));
}

static void copy(const layer &l, const float *from, float *to)
{
    const sb_global<const float> x = input("state", from, l.state_size);
    const sb_global<float> y = output("state", to, l.state_size);
    const uint32_t count = static_cast<uint32_t>(l.state_size);
    done(
        SB_LAUNCH(&queue, back_copy, blocks_of(count, BACK_THREADS), BACK_THREADS, 0, x, y, count));
}

/* The rows from `first` on, without states. */
static sb_delta_job<float> job_of(const layer &l, size_t first, size_t rows)
{
    const sb_delta_rule_args a = rest_of(l.rows, first);
    const size_t keys = rows * a.k_heads * a.dk, gates = rows * a.v_heads;
    sb_delta_job<float> job = {};
    job.q = input("q", a.q, keys);
    job.k = input("k", a.k, keys);
    job.v = input("v", a.v, rows ? (rows - 1) * a.v_stride + a.v_heads * a.dv : 0);
    job.v_stride = static_cast<uint32_t>(a.v_stride);
    job.g = input("g", a.g, gates);
    job.beta = input("beta", a.beta, gates);
    job.out = output("out", l.out, gates * a.dv);
    job.rows = static_cast<uint32_t>(rows);
    job.k_heads = static_cast<uint32_t>(a.k_heads);
    job.v_heads = static_cast<uint32_t>(a.v_heads);
    job.dk = static_cast<uint32_t>(a.dk);
    job.dv = static_cast<uint32_t>(a.dv);
    return job;
}

template <class... A>
static sb_status launch(const layer &l, void (*kernel)(A...), const char *name, const A &...job)
{
    const dim3 grid(blocks_of(l.s.dv, SB_DELTA_COLUMNS), static_cast<unsigned>(l.s.v_heads));
    return sb_emu_call(emulator, name, kernel, grid, SB_DELTA_THREADS, 0, &err, job...);
}

/* The kernel used by samebit. trail may be NULL. */
static void rule(const layer &l, size_t first, size_t rows, const float *from, float *to,
                 float *trail)
{
    sb_delta_job<float> job = job_of(l, first, rows);
    if (from == to) {
        job.to = sb_global<float>(buffer("state", to, l.state_size, SB_EMU_INOUT));
        job.from = job.to;
    } else {
        job.from = input("state", from, l.state_size);
        job.to = output("state", to, l.state_size);
    }
    if (trail)
        job.trail = output("state", trail, rows * l.state_size);
    const auto kernel = l.s.dk <= 32   ? sb_delta_rule_kernel<float, 32>
                        : l.s.dk <= 64 ? sb_delta_rule_kernel<float, 64>
                                       : sb_delta_rule_kernel<float, 128>;
    done(launch(l, kernel, "sb_delta_rule_kernel", job));
}

/* Applies `before` rows of the round before to the state, then runs `rows` rows. */
static void replay(const layer &l, size_t before, size_t from, size_t first, size_t rows)
{
    const size_t keys = l.s.k_heads * l.s.dk, values = l.s.v_heads * l.s.dv, now = 1 - from;
    back_job job = {};
    job.now = job_of(l, first, rows);
    job.now.to = sb_global<float>(buffer("state", l.state, l.state_size, SB_EMU_INOUT));
    job.now.from = job.now.to;
    job.before = {
        input("kept", l.k[from], before * keys), input("kept", l.d[from], before * values),
        input("kept", l.decay[from], before * l.s.v_heads), static_cast<uint32_t>(before)};
    job.after = {output("kept", l.k[now], rows * keys), output("kept", l.d[now], rows * values),
                 output("kept", l.decay[now], rows * l.s.v_heads), job.now.rows};
    const auto kernel = l.s.dk <= 32   ? back_rule<32>
                        : l.s.dk <= 64 ? back_rule<64>
                                       : back_rule<128>;
    done(launch(l, kernel, "back_rule", job));
}

/* --- rounds ----------------------------------------------------------------------------------- */
static void round_of(layer *l, size_t round)
{
    const size_t first = round * l->m, i = round % 2;
    const int back = l->m < l->n; /* otherwise nothing has to be rolled back: S-10 */
    switch (l->how) {
    case SNAPSHOTS:
        copy(*l, l->state, l->spare);
        rule(*l, first, l->n, l->state, l->state, l->slots[0]);
        if (back)
            copy(*l, l->slots[0] + (l->m - 1) * l->state_size, l->state);
        break;
    case SLOTS:
        rule(*l, first, l->n, l->state, l->spare, l->slots[i]);
        l->state = l->slots[i] + (l->m - 1) * l->state_size;
        break;
    case REPLAY:
        copy(*l, l->state, l->spare);
        rule(*l, first, l->n, l->state, l->state, nullptr);
        if (back) {
            copy(*l, l->spare, l->state);
            float *whole = l->out; /* these outputs are already known */
            l->out = l->slots[0];
            rule(*l, first, l->m, l->state, l->state, nullptr);
            l->out = whole;
        }
        break;
    case RULE:
        replay(*l, 0, 1, first, l->n);
        replay(*l, l->m, 0, 0, 0);
        break;
    default:
        replay(*l, round ? l->m : 0, 1 - i, first, l->n);
    }
}

static layer open(const shape &s, way how, size_t n, size_t m)
{
    layer l = {};
    l.s = s;
    l.how = how;
    l.n = n;
    l.m = m;
    l.state_size = s.v_heads * s.dk * s.dv;
    l.rows = call_of(s, 1, false, 1.0);
    l.state = l.rows.state;
    l.spare = test_output(l.state_size);
    l.out = test_output((n + m) * s.v_heads * s.dv);
    for (size_t i = 0; i < 2; i++) {
        l.slots[i] = test_output(n * l.state_size);
        l.k[i] = test_output(n * s.k_heads * s.dk);
        l.d[i] = test_output(n * s.v_heads * s.dv);
        l.decay[i] = test_output(n * s.v_heads);
    }
    return l;
}

/* Counts the second of two rounds. Afterwards the state is that of the kept rows. */
static cost counted(layer *l)
{
    static const char *const of_rows[] = {"q", "k", "v", "g", "beta", "out", "kept"};
    static sb_emu_counts counts;
    counts = {};
    round_of(l, 0);
    products = 0;
    sb_emu_count(emulator, &counts);
    round_of(l, 1);
    sb_emu_count(emulator, nullptr);
    const sb_emu_tally state = sb_emu_counted(&counts, nullptr, "state");
    cost c = {
        sb_emu_counted(&counts, nullptr, nullptr).times, state.read, state.written, 0, 0, products};
    for (const char *name : of_rows) {
        c.rows_read += sb_emu_counted(&counts, nullptr, name).read;
        c.rows_written += sb_emu_counted(&counts, nullptr, name).written;
    }
    if (l->how == LATER) /* the work at the beginning of the third round */
        replay(*l, l->m, 1, 0, 0);
    return c;
}

/* The expected cost, computed as in docs/gpu.md. */
static cost expected(const shape &s, way how, size_t n, size_t m)
{
    const uint64_t back = m < n, groups = (s.dv + 31) / 32;
    const uint64_t state = 4 * s.v_heads * s.dk * s.dv, elements = s.v_heads * groups * 32 * s.dk;
    const uint64_t columns = s.v_heads * groups * 32;
    const uint64_t row_in = 4 * s.v_heads * (groups * (2 * s.dk + 2) + 4 * s.dv);
    const uint64_t row_out = 4 * s.v_heads * s.dv;
    const uint64_t row_kept = 4 * (s.k_heads * s.dk + s.v_heads * s.dv + s.v_heads);
    const uint64_t again = 4 * s.v_heads * (groups * (s.dk + 1) + s.dv);
    const uint64_t whole = 4 * elements + 4 * columns, update = 2 * elements; /* per row */
    const cost all[WAYS] = {
        {2 + back, (2 + back) * state, (n + 2 + back) * state, n * row_in, n * row_out, n * whole},
        {1, state, (n + 1) * state, n * row_in, n * row_out, n * whole},
        {2 + 2 * back, (2 + 2 * back) * state, (2 + 2 * back) * state, (n + back * m) * row_in,
         (n + back * m) * row_out, (n + back * m) * whole},
        {2, 2 * state, state, n * row_in + m * again, n * (row_out + row_kept),
         n * whole + m * update},
        {1, state, state, n * row_in + m * again, n * (row_out + row_kept),
         n * whole + m * update}};
    return all[how];
}

/* --- tests ------------------------------------------------------------------------------------ */
static void print(way how, size_t n, size_t m, const cost &c)
{
    printf("| %s | %zu | %zu | %llu | %llu | %llu | %llu | %llu | %llu |\n", way_names[how], n, m,
           static_cast<unsigned long long>(c.launches),
           static_cast<unsigned long long>(c.state_written),
           static_cast<unsigned long long>(c.state_read),
           static_cast<unsigned long long>(c.rows_written),
           static_cast<unsigned long long>(c.rows_read),
           static_cast<unsigned long long>(c.products));
}

/* Every way has the expected cost, and leaves the same outputs and state as the kernel that is fed
 * only the kept rows. */
static void try_all(const shape &s, size_t n, size_t m, bool shown)
{
    layer plain = open(s, SLOTS, n, m);
    rule(plain, 0, m + n, plain.state, plain.spare, nullptr);
    const float *outputs = test_copy(plain.out, (m + n) * s.v_heads * s.dv);
    rule(plain, 0, 2 * m, plain.state, plain.state, nullptr);
    for (int how = 0; how < WAYS; how++) {
        layer l = open(s, static_cast<way>(how), n, m);
        const cost c = counted(&l), wanted = expected(s, l.how, n, m);
        if (shown)
            print(l.how, n, m, c);
        if (memcmp(&c, &wanted, sizeof c) != 0) {
            print(l.how, n, m, wanted);
            fail_msg("%s: by arithmetic it is what stands above", way_names[how]);
        }
        assert_true(same_bits(l.state, plain.state, l.state_size));
        assert_true(same_bits(l.out, outputs + m * s.v_heads * s.dv, n * s.v_heads * s.dv));
    }
    test_release(nullptr);
}

/* The shapes of T1 and T5, T3, T4 and T6, and T2. */
TEST(test_presets)
{
    static const shape presets[] = {
        {2, 4, 64, 64}, {2, 6, 64, 64}, {2, 2, 64, 64}, {16, 32, 32, 32}, {2, 4, 128, 128}};
    for (const shape &s : presets)
        for (size_t n = 2; n <= (check_all() ? 9 : 4); n++)
            for (size_t m = 1; m <= n; m++)
                if (check_all() || s.v_heads == 2 || (n == 4 && m == 2))
                    try_all(s, n, m, false);
}

/* A layer of Qwen3.6-35B-A3B. */
TEST(test_large)
{
    const shape large = {16, 32, 128, 128};
    puts("| way | rows | kept | launches | state written | state read | rows written | rows read |"
         " products |\n|---|---|---|---|---|---|---|---|---|");
    for (size_t n = check_all() ? 2 : 4; n <= 4; n++)
        for (size_t m = 1; m <= n; m++)
            if (check_all() || m == 2 || m == n)
                try_all(large, n, m, true);
}

TEST_FIXTURE(start)
{
    emulator = sb_emu_new(0);
    queue = {emulator, &err};
    return emulator ? 0 : -1;
}

TEST_FIXTURE(end)
{
    sb_emu_free(emulator);
    return 0;
}
TEST_GROUP(start, end)

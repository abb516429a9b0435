/* test_gpu_graph.cc - launches that are recorded and replayed (Y-17), and calls that are refused
 * during a recording (Y-18), in the emulator. */
#include "tests/lib/suite.h"

#include <initializer_list>
#include <stdlib.h>
#include <string.h>

#include "gpu/emu/record.h"
#include "gpu/op/body.h"
#include "gpu/op/graph.h"
#include "gpu/op/gpu.h"

enum { N = 64 };

/* Arguments in a large struct, as in attention. */
struct job {
    sb_global<int> x;
    sb_global<const int> by;
    int times, unused[40], plus;
};
static __global__ void grow(job j)
{
    sb_launch_wait();
    const unsigned i = blockIdx.x * 32 + threadIdx.x;
    const int old = j.x[i], by = j.by[0];
    j.x[i] = old * j.times + j.plus + by;
}
static __global__ void note(sb_global<const int> x, sb_global<int> seen, sb_global<unsigned> next)
{
    sb_launch_wait();
    const unsigned at = next[0];
    if (threadIdx.x == 0)
        seen[at] = x[at];
    __syncthreads();
    if (threadIdx.x == 0)
        next[0] = at + 1;
}

/* An op with buffers that exist before and after a recording. */
struct bench {
    sb_gpu *gpu;
    int x[N], by, seen[8];
    unsigned next;
};

static void open(bench *b)
{
    *b = bench();
    assert_int_equal(sb_gpu_open(&b->gpu, nullptr), SB_OK);
    for (int i = 0; i < N; i++)
        b->x[i] = i;
    b->by = 5;
}

/* x = 3 x + plus + by; x = 2 x + 1 + by; seen[next] = x[next]; next++. The arguments of a launch
 * exist only until it was made. */
struct buffers {
    sb_global<int> x, seen;
    sb_global<const int> by;
    sb_global<unsigned> next;
};
static void launch(sb_gpu_work &work, const buffers &of, int plus)
{
    job first = {of.x, of.by, 3, {}, plus};
    SB_GPU_RUN(work, grow, N / 32, 32, 0, first);
    first.times = 1000;
    first.x = nullptr;
    job second = {of.x, of.by, 2, {}, 1};
    SB_GPU_RUN(work, grow, N / 32, 32, 0, second);
    memset(static_cast<void *>(&second), 0x55, sizeof second);
    SB_GPU_RUN(work, note, 1, 32, 0, of.x, of.seen, of.next);
}

static buffers bring(sb_gpu_work &work, bench *b)
{
    return {work.inout("x", b->x, N), work.inout("seen", b->seen, 8), work.in("by", &b->by, 1),
            work.inout("next", &b->next, 1)};
}

/* Records the launches `times` times in sequence. */
static sb_graph *recorded(const bench *b, sb_gpu_work &work, const buffers &of, int plus,
                          int times = 1)
{
    sb_graph *graph = nullptr;
    assert_int_equal(sb_graph_begin(b->gpu), SB_OK);
    for (int i = 0; i < times; i++)
        launch(work, of, plus);
    assert_int_equal(sb_graph_end(b->gpu, &graph), SB_OK);
    return graph;
}

/* The expected effect of running the launches `times` times. */
static void model(bench *b, int times, int plus)
{
    for (; times > 0; times--) {
        for (int &x : b->x)
            x = 2 * (3 * x + plus + b->by) + 1 + b->by;
        b->seen[b->next] = b->x[b->next];
        b->next++;
    }
}

static void is(const bench *b, const bench *want)
{
    assert_memory_equal(b->x, want->x, sizeof b->x);
    assert_memory_equal(b->seen, want->seen, sizeof b->seen);
    assert_int_equal(b->next, want->next);
}

/* Y-17: "A replay does what the launches would do in their order" */
TEST(test_replay)
{
    bench b, want;
    for (int replays = 0; replays <= 3; replays++) {
        sb_graph *graph = nullptr;
        open(&b);
        want = b;
        {
            sb_gpu_work work(b.gpu);
            const buffers of = bring(work, &b);
            graph = recorded(&b, work, of, 7);
            assert_int_equal(sb_graph_launches(graph), 3);
            for (int i = 0; i < replays; i++)
                assert_int_equal(sb_graph_run(b.gpu, graph), SB_OK);
            launch(work, of, 11); /* launches in between run at once */
            assert_int_equal(sb_graph_run(b.gpu, graph), SB_OK);
            assert_int_equal(work.finish(), SB_OK);
        }
        model(&want, replays, 7);
        model(&want, 1, 11);
        model(&want, 1, 7);
        is(&b, &want);
        sb_graph_free(graph);
        sb_gpu_close(b.gpu);
    }
}

/* Two graphs of one sb_gpu. */
TEST(test_two)
{
    bench b, want;
    sb_graph *graph[2] = {};
    open(&b);
    want = b;
    {
        sb_gpu_work work(b.gpu);
        const buffers of = bring(work, &b);
        for (int i = 0; i < 2; i++)
            graph[i] = recorded(&b, work, of, 100 * i);
        for (int i : {1, 0, 0, 1})
            assert_int_equal(sb_graph_run(b.gpu, graph[i]), SB_OK);
        assert_int_equal(work.finish(), SB_OK);
    }
    for (int i : {1, 0, 0, 1})
        model(&want, 1, 100 * i);
    is(&b, &want);
    sb_graph_free(graph[0]);
    sb_graph_free(graph[1]);
    sb_graph_free(nullptr);
    sb_gpu_close(b.gpu);
}

static void says(const bench *b, sb_status status, sb_status want, const char *text)
{
    assert_int_equal(status, want);
    if (!strstr(sb_gpu_said(b->gpu)->text, text))
        fail_msg("%s\nis not: %s", sb_gpu_said(b->gpu)->text, text);
}

/* A fault of a kernel ends the replay there. */
TEST(test_faults)
{
    bench b;
    sb_graph *graph = nullptr;
    open(&b);
    {
        sb_gpu_work work(b.gpu);
        graph = recorded(&b, work, bring(work, &b), 7, 3);
        for (int i = 0; i < 2; i++)
            assert_int_equal(sb_graph_run(b.gpu, graph), SB_OK);
        says(&b, sb_graph_run(b.gpu, graph), SB_ERR_DIFF, "kernel note, block (0,0,0)");
    }
    sb_graph_free(graph);
    sb_gpu_close(b.gpu);
}

/* A buffer that loses its values between two recorded launches also loses them in each replay. */
TEST(test_unset)
{
    bench b;
    sb_emu_record record = {};
    sb_emu_region seen;
    open(&b);
    assert_int_equal(
        sb_emu_region_open(&seen, "seen", b.seen, sizeof b.seen, SB_EMU_INOUT, nullptr), SB_OK);
    assert_int_equal(sb_emu_keep_unset(&record, &seen, 4, 8, nullptr), SB_OK);
    assert_int_equal(sb_emu_unset(&seen, 0), sizeof b.seen);
    assert_int_equal(sb_emu_replay(sb_gpu_emulator(b.gpu), &record, nullptr), SB_OK);
    assert_int_equal(sb_emu_unset(&seen, 0), 4);
    assert_int_equal(sb_emu_unset(&seen, 12), sizeof b.seen);
    assert_int_equal(record.launches, 0);
    sb_emu_record_free(&record);
    sb_emu_region_close(&seen);
    sb_gpu_close(b.gpu);
}

/* --- during a recording ----------------------------------------------------------------------- */
static sb_status zeros(const sb_matrix *, size_t, size_t bytes, unsigned char *to)
{
    memset(to, 0, bytes);
    return SB_OK;
}

static void takes_input(sb_gpu_work &work, bench *b)
{
    work.in("late", &b->by, 1);
}
static void takes_output(sb_gpu_work &work, bench *b)
{
    work.out("late", b->seen, 8);
}
static void takes_scratch(sb_gpu_work &work, bench *)
{
    work.scratch<int>("late", 8);
}
static void takes_weights(sb_gpu_work &work, bench *)
{
    static const unsigned char bytes[64] = {};
    sb_matrix m = {};
    m.data = bytes;
    m.rows = m.cols = 4;
    m.format = SB_FORMAT_f32;
    work.kept<unsigned char>("late", &m, zeros, 64, 16);
}
static void takes_results(sb_gpu_work &work, bench *)
{
    work.finish();
}

/* Y-18: "an error that names the buffer, and the recording fails" */
TEST(test_refused)
{
    const struct {
        void (*does)(sb_gpu_work &work, bench *b);
        const char *said;
    } cases[] = {{takes_input, "late: "},
                 {takes_output, "late: "},
                 {takes_scratch, "late: "},
                 {takes_weights, "late: "},
                 {takes_results, "the end of all launches: "}};
    for (const auto &c : cases) {
        bench b;
        sb_graph *graph = nullptr;
        open(&b);
        {
            sb_gpu_work work(b.gpu);
            const buffers of = bring(work, &b);
            assert_int_equal(sb_graph_begin(b.gpu), SB_OK);
            launch(work, of, 7);
            c.does(work, &b);
            says(&b, sb_graph_end(b.gpu, &graph), SB_ERR_USAGE, c.said);
            assert_null(graph);
            assert_false(work.ok());
        }
        {
            sb_gpu_work work(b.gpu); /* the next recording is not affected */
            graph = recorded(&b, work, bring(work, &b), 7);
            assert_int_equal(work.finish(), SB_OK);
        }
        sb_graph_free(graph);
        sb_gpu_close(b.gpu);
    }
}

TEST(test_order)
{
    bench b;
    sb_graph *graph = nullptr, *other = nullptr;
    open(&b);
    says(&b, sb_graph_end(b.gpu, &graph), SB_ERR_USAGE, "no launches are recorded");
    assert_int_equal(sb_graph_begin(b.gpu), SB_OK);
    says(&b, sb_graph_begin(b.gpu), SB_ERR_USAGE, "launches are recorded already");
    assert_int_equal(sb_graph_end(b.gpu, &graph), SB_OK); /* an empty graph */
    assert_int_equal(sb_graph_run(b.gpu, graph), SB_OK);
    assert_int_equal(sb_graph_begin(b.gpu), SB_OK);
    says(&b, sb_graph_run(b.gpu, graph), SB_ERR_USAGE, "a graph: ");
    says(&b, sb_graph_end(b.gpu, &other), SB_ERR_USAGE, "a graph: ");
    assert_null(other);
    sb_graph_free(graph);
    sb_gpu_close(b.gpu);
}

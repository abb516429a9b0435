/* test_gpu_resident.cc - values left in resident memory by one call are not valid for the next
 * (Y-75). An output that is not written, or is read before it is written, is a fault in the
 * emulator, even if the right values of the call before are still there. */
#include "tests/lib/suite.h"

#include <initializer_list>
#include <string.h>

#include "gpu/kernel/elementwise.cuh"
#include "gpu/op/graph.h"
#include "gpu/op/resident.h"
#include "tests/gpu/plant.h"

namespace
{

enum { N = 300 };

struct rig {
    sb_gpu *gpu;
    sb_knobs knobs;
    float *a, *b, *sum, *gated; /* resident */
};

void open(rig *r)
{
    float values[N];
    *r = rig();
    assert_int_equal(sb_gpu_open(&r->gpu, nullptr), SB_OK);
    assert_int_equal(sb_knobs_profile(&r->knobs, "sm121", nullptr), SB_OK);
    for (float **x : {&r->a, &r->b, &r->sum, &r->gated}) {
        void *at;
        assert_int_equal(sb_gpu_reside(r->gpu, "values", sizeof values, &at), SB_OK);
        *x = static_cast<float *>(at);
    }
    for (int i = 0; i < N; i++)
        values[i] = static_cast<float>(i + 1);
    assert_int_equal(sb_gpu_write(r->gpu, r->a, values, sizeof values), SB_OK);
    assert_int_equal(sb_gpu_write(r->gpu, r->b, values, sizeof values), SB_OK);
}

sb_status add(rig *r, const float *a, const float *b, float *out)
{
    const sb_add_args args = {a, b, N, out, nullptr};
    return sb_gpu_add(r->gpu, &r->knobs, &args);
}

/* gated = a sigmoid(sum). It reads all of the sum, so that an unwritten element is detected. */
sb_status gate(rig *r)
{
    const sb_attn_gate_args args = {r->a, r->sum, N, r->gated};
    return sb_gpu_attn_gate(r->gpu, &r->knobs, &args);
}
sb_status add_and_gate(rig *r)
{
    const sb_status status = add(r, r->a, r->b, r->sum);
    return status ? status : gate(r);
}

void is_sum(rig *r)
{
    float values[N];
    assert_int_equal(sb_gpu_read(r->gpu, values, r->sum, sizeof values), SB_OK);
    for (int i = 0; i < N; i++)
        assert_true(values[i] == static_cast<float>(2 * (i + 1)));
    assert_int_equal(sb_gpu_read(r->gpu, values, r->gated, sizeof values), SB_OK);
}

/* Asserts that the emulator stopped a read of the last element. */
void is_stopped(rig *r, sb_status status)
{
    assert_int_equal(status, SB_ERR_DIFF);
    if (!strstr(sb_gpu_said(r->gpu)->text, "element 299 of 4 bytes), which no thread has written"))
        fail_msg("%s", sb_gpu_said(r->gpu)->text);
}

/* Y-75: "an output whose memory is not shared with an input of its op has no value before the op"
 */
TEST(test_left_over)
{
    float values[N];
    rig r;
    open(&r);
    assert_int_equal(add_and_gate(&r), SB_OK);
    is_sum(&r);
    plant("add_last");
    const sb_status status = add_and_gate(&r);
    plant("");
    is_stopped(&r, status);
    assert_int_equal(sb_gpu_read(r.gpu, values, r.sum, sizeof values), SB_ERR_DIFF);
    assert_int_equal(add_and_gate(&r), SB_OK);
    is_sum(&r);
    sb_gpu_close(r.gpu);
}

/* An output shared with an input has the input's values: an element not written keeps its value. */
TEST(test_shared)
{
    float values[N];
    rig r;
    open(&r);
    plant("add_last");
    assert_int_equal(add(&r, r.a, r.b, r.a), SB_OK);
    plant("");
    assert_int_equal(sb_gpu_read(r.gpu, values, r.a, sizeof values), SB_OK);
    assert_true(values[N - 2] == 2 * (N - 1) && values[N - 1] == N);
    sb_gpu_close(r.gpu);
}

/* Memory given to another buffer while it is still to be read: the second half of the sum becomes
 * the output of a call that leaves out an element. */
TEST(test_reused)
{
    rig r;
    open(&r);
    for (const bool left_out : {false, true}) {
        assert_int_equal(add(&r, r.a, r.b, r.sum), SB_OK);
        const sb_add_args half = {r.a, r.b, N / 2, r.sum + N / 2, nullptr};
        plant(left_out ? "add_last" : "");
        assert_int_equal(sb_gpu_add(r.gpu, &r.knobs, &half), SB_OK);
        plant("");
        const sb_status status = gate(&r);
        if (left_out)
            is_stopped(&r, status);
        else
            assert_int_equal(status, SB_OK);
    }
    sb_gpu_close(r.gpu);
}

/* Each replay begins without values, too. */
TEST(test_replayed)
{
    sb_graph *graph = nullptr;
    rig r;
    open(&r);
    assert_int_equal(sb_graph_begin(r.gpu), SB_OK);
    assert_int_equal(add_and_gate(&r), SB_OK);
    assert_int_equal(sb_graph_end(r.gpu, &graph), SB_OK);
    assert_int_equal(sb_graph_run(r.gpu, graph), SB_OK);
    is_sum(&r);
    plant("add_last");
    const sb_status status = sb_graph_run(r.gpu, graph);
    plant("");
    is_stopped(&r, status);
    sb_graph_free(graph);
    sb_gpu_close(r.gpu);
}

/* The scratch memory of an op has values of another op with the same pool and name, or none. */
TEST(test_scratch)
{
    rig r;
    open(&r);
    sb_gpu_pool *pool = sb_gpu_pool_new(r.gpu);
    assert_non_null(pool);
    sb_gpu_use_pool(r.gpu, pool);
    for (const bool written : {true, false}) {
        sb_gpu_work work(r.gpu);
        const auto a = work.in("a", r.a, N);
        const auto values = work.scratch<float>("values", N);
        const auto out = work.out("out", r.sum, N);
        plant(written ? "" : "add_last");
        SB_GPU_RUN(work, sb_add_kernel<float>, 2, SB_EACH_THREADS, 0, a, a, values, size_t(N));
        plant("");
        SB_GPU_RUN(work, sb_attn_gate_kernel<float>, 2, SB_EACH_THREADS, 0, a, values, size_t(N),
                   out);
        const sb_status status = work.finish();
        if (written)
            assert_int_equal(status, SB_OK);
        else
            is_stopped(&r, status);
    }
    sb_gpu_use_pool(r.gpu, nullptr);
    sb_gpu_pool_free(r.gpu, pool);
    sb_gpu_close(r.gpu);
}

} // namespace

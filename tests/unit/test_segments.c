/* test_segments.c - T-91: bounds of ops whose inputs are balls; engines that lack values of fused
 * kernels; where a fault inside a segment is. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/rng.h"
#include "ref/ops/args.h"
#include "ref/ops/values.h"
#include "ref/run/session.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/forced_run.h"
#include "tests/lib/plain.h"
#include "tools/judge/bound/bound.h"
#include "tools/judge/fault/mistakes.h"
#include "tools/judge/sim/sim.h"

static sb_model *model_of(const char *preset)
{
    return test_model_open(test_checkpoint("test_segments", preset, "mistakes", "bf16", "text"));
}

/* --- bounds of balls -------------------------------------------------------------------------- */

/* Every op of a session also runs with inputs that are moved by up to `moved` of themselves, while
 * the bound is told `told`. */
typedef struct watch {
    double moved, told;
    uint64_t drawn;
    size_t outside[SB_OP_COUNT], seen[SB_OP_COUNT];
    double worst[SB_OP_COUNT];
} watch;

static void *room(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    assert_non_null(p);
    return p;
}

static sb_status bound_of(const sb_op_call *call, const sb_ball *const *in, sb_ball *out,
                          sb_ball *second)
{
    const sb_arithmetic *ar = &sb_arithmetic_reference;
    switch (call->op) {
#define SB_OP(name, clause)                                                                        \
    case SB_OP_##name:                                                                             \
        return sb_bound_##name##_in(ar, call->knobs, call->args, in, out, second);
#include "ref/ops/ops.def"
#undef SB_OP
    case SB_OP_COUNT:
        break;
    }
    return SB_ERR_USAGE;
}

/* Points the member of that name to other data. */
static void point(sb_op op, sb_any_args *args, const char *name, float *data)
{
    const sb_arg *arg = sb_arg_find(op, name);
    void *at = sb_arg_at(args, arg);
    if (arg->kind == SB_ARG_scalar)
        memcpy(at, data, sizeof *data);
    else
        memcpy(at, &data, sizeof data);
}

static float *moved_copy(watch *w, const sb_op_value *in, sb_ball *balls)
{
    const size_t count = in->rows ? (in->rows - 1) * in->stride + in->cols : 0;
    float *copy = room(count, sizeof *copy);
    memcpy(copy, in->data, count * sizeof *copy);
    for (size_t row = 0; row < in->rows; row++)
        for (size_t col = 0; col < in->cols; col++) {
            float *x = &copy[row * in->stride + col];
            const double size = *x < 0 ? -(double)*x : (double)*x;
            const int sign = (int)(sb_rng_u64(7, w->drawn++) >> 62) - 1; /* -1, 0, 1, 2 */
            balls[row * in->cols + col] = (sb_ball){(double)*x, w->told * size};
            *x += (float)(w->moved * size * (double)(sign > 1 ? 1 : sign) * 0.99);
        }
    return copy;
}

static void compare(watch *w, sb_op op, const float *out, const sb_ball *balls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double apart = (double)out[i] - balls[i].mid;
        apart = apart < 0 ? -apart : apart;
        w->seen[op]++;
        w->outside[op] += !(apart <= SB_BOUND_SLACK * balls[i].rad);
        if (balls[i].rad > 0 && apart / balls[i].rad > w->worst[op])
            w->worst[op] = apart / balls[i].rad;
    }
}

static sb_status watched(void *ctx, const sb_op_call *call)
{
    watch *w = ctx;
    sb_op_values v = sb_op_values_of(call->op, call->args);
    sb_ball *in[SB_OP_INPUTS] = {NULL}, *out[SB_OP_OUTPUTS] = {NULL};
    float *copies[SB_OP_INPUTS] = {NULL}, *made[SB_OP_OUTPUTS] = {NULL};
    sb_any_args args;
    sb_op_call one = *call;
    if (call->op == SB_OP_router || call->op == SB_OP_embed)
        return sb_op_run(call);
    sb_args_copy(call->op, call->args, &args);
    for (size_t i = 0; i < v.inputs; i++) {
        const sb_op_value *value = &v.in[i];
        const int state = v.state.data && value->data == v.state.data;
        if (value->ids)
            continue;
        sb_ball *balls = room(value->rows * value->cols, sizeof *balls);
        const double moves = w->moved;
        w->moved = state ? 0 : moves;
        copies[i] = moved_copy(w, value, balls);
        w->moved = moves;
        point(call->op, &args, value->name, copies[i]);
        if (state && call->op != SB_OP_conv)
            free(balls);
        else
            in[i] = balls;
    }
    for (size_t i = 0; i < v.outputs; i++) {
        const size_t count = v.out[i].rows * v.out[i].cols;
        out[i] = room(count, sizeof *out[i]);
        made[i] = call->op == SB_OP_rope ? copies[0] : room(count, sizeof *made[i]);
        point(call->op, &args, v.out[i].name, made[i]);
    }
    if (sb_arg_find(call->op, "trail"))
        point(call->op, &args, "trail", NULL);
    const sb_ball *const balls[SB_OP_INPUTS] = {in[0], in[1], in[2], in[3], in[4], in[5]};
    assert_int_equal(bound_of(call, balls, out[0], v.outputs > 1 ? out[1] : NULL), SB_OK);
    one.args = &args;
    assert_int_equal(sb_op_run(&one), SB_OK);
    for (size_t i = 0; i < v.outputs; i++)
        compare(w, call->op, made[i], out[i], v.out[i].rows * v.out[i].cols);
    for (size_t i = 0; i < v.inputs; i++) {
        free(in[i]);
        free(copies[i]);
    }
    for (size_t i = 0; i < v.outputs; i++) {
        free(out[i]);
        if (call->op != SB_OP_rope)
            free(made[i]);
    }
    return sb_op_run(call);
}

static void run_watched(const sb_model *model, const char *setting, watch *w)
{
    sb_error err = {{0}};
    sb_knobs knobs = test_knobs(setting);
    sb_session *session = NULL;
    const uint32_t tokens[] = {1, 2, 3, 9, 77, 5};
    const sb_session_options options = {.knobs = &knobs, .hook = watched, .hook_ctx = w};
    assert_int_equal(sb_session_new(model, &options, &session, &err), SB_OK);
    assert_int_equal(sb_session_feed(session, tokens, 5, &err), SB_OK);
    assert_int_equal(sb_session_feed(session, tokens + 5, 1, &err), SB_OK);
    sb_session_free(session);
}

/* No op leaves its ball while its inputs stay in theirs; every op leaves it if its inputs do. */
TEST(test_balls)
{
    static const char *const settings[] = {"delta_rule=recurrent", "delta_rule=by_call",
                                           "act=bf16 delta_rule=by_call", "act=bf16 scores=flash",
                                           "delta_rule=chunk_fla act=bf16"};
    sb_model *model = model_of("T1");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        watch right = {.moved = 0x1p-11, .told = 0x1p-11};
        watch wrong = {.moved = 0x1p-7, .told = 0x1p-20};
        run_watched(model, settings[i], &right);
        run_watched(model, settings[i], &wrong);
        for (size_t op = 0; op < SB_OP_COUNT; op++) {
            if (!right.seen[op])
                continue;
            printf("%-32s %-16s %8zu elements, %.3g of the ball\n", settings[i], sb_op_name(op),
                   right.seen[op], right.worst[op]);
            if (right.outside[op])
                fail_msg("%s, %s: %zu of %zu elements left their balls, by %.3g", settings[i],
                         sb_op_name(op), right.outside[op], right.seen[op], right.worst[op]);
            if (!wrong.outside[op])
                fail_msg("%s, %s: inputs outside their balls are not seen", settings[i],
                         sb_op_name(op));
        }
    }
    sb_model_close(model);
}

/* --- engines that lack values ----------------------------------------------------------------- */

/* Values inside fused kernels: between projections and their products, and inside the experts. */
static const char fused[] =
    "embed,*input_layernorm,*in_proj_*,*core_out,*linear_attn.norm,*out_proj,"
    "*self_attn.?_proj,*o_proj,*attn_residual,*post_attention_layernorm,"
    "*mlp.gate,*router_ids,*mlp.out,*.output,norm,logits,mtp.*";

static forced_run fused_run(const sb_model *model, const sb_op_table *ops, const sb_knobs *knobs)
{
    return (forced_run){.model = model,
                        .ops = ops,
                        .knobs = knobs,
                        .taps = fused,
                        .prompt = 7,
                        .decoded = 2,
                        .rounds = 3,
                        .mtp = 1};
}

/* Every correct engine passes: every tap is judged in some layer, most of them alone. */
TEST(test_fused)
{
    static const char *const settings[] = {"delta_rule=recurrent", "delta_rule=by_call",
                                           "act=bf16 delta_rule=recurrent"};
    static const char *const engines[] = {"sequential", "pairwise", "fma", "flash"};
    sb_model *model = model_of("T1");
    for (size_t i = 0; i < 3; i++)
        for (size_t e = 0; e < 4; e++) {
            const sb_sim *sim = NULL;
            sb_error err = {{0}};
            sb_knobs knobs = test_knobs(settings[i]);
            assert_int_equal(sb_sim_find(engines[e], &sim, &err), SB_OK);
            forced_run run = fused_run(model, &sim->backend.ops, &knobs);
            forced_run_all(&run);
            const sb_judged all = sb_verdicts_judged(&run.verdicts);
            printf("%s, %s: %zu alone, %zu inside, %zu not judged: %s\n", settings[i], engines[e],
                   all.alone, all.inside, all.not_judged, sb_verdict_name(run.verdicts.verdict));
            if (run.verdicts.verdict != SB_VERDICT_WITHIN &&
                run.verdicts.verdict != SB_VERDICT_NEAR_TIE) {
                forced_run_print(&run);
                for (size_t t = 0; t < run.verdicts.tap_count; t++)
                    if (run.verdicts.taps[t].values.alone + run.verdicts.taps[t].values.inside == 0)
                        printf("never judged: %s (%s)\n", run.verdicts.taps[t].name,
                               run.verdicts.taps[t].where);
                fail_msg("%s, %s: %s: %s", settings[i], engines[e],
                         sb_verdict_name(run.verdicts.verdict), run.verdicts.reason);
            }
            assert_true(all.inside > all.not_judged && all.alone > all.inside);
            sb_verdicts_free(&run.verdicts);
        }
    sb_model_close(model);
}

/* Of the router only its choice is recorded: ids are values, too (T-16). */
TEST(test_ids_alone)
{
    sb_model *model = model_of("T1");
    sb_knobs knobs = test_knobs("delta_rule=recurrent");
    const sb_sim *sim = NULL;
    sb_error err = {{0}};
    assert_int_equal(sb_sim_find("sequential", &sim, &err), SB_OK);
    forced_run run = fused_run(model, &sim->backend.ops, &knobs);
    run.mtp = 0;
    run.rounds = 0;
    forced_run_all(&run);
    assert_int_equal(run.verdicts.ops[SB_OP_router].verdict, SB_VERDICT_IDENTICAL);
    if (run.verdicts.verdict > SB_VERDICT_NEAR_TIE)
        fail_msg("%s: %s", sb_verdict_name(run.verdicts.verdict), run.verdicts.reason);
    sb_verdicts_free(&run.verdicts);
    sb_model_close(model);
}

/* In layer 3 alone, a key of the engine has another norm. */
static sb_status wrong_k_norm(void *ctx, const sb_op_call *call)
{
    sb_status status = sb_op_run(call);
    (void)ctx;
    if (call->layer == 3 && strcmp(call->name, "self_attn.k_norm") == 0) {
        const sb_rmsnorm_args *a = call->args;
        for (size_t i = 0; i < a->rows * a->n; i++)
            a->out[i] *= 1.0f + 0x1p-6f;
    }
    return status;
}

/* The fault is named with the ends of its segment, in its own layer. */
TEST(test_between)
{
    sb_model *model = model_of("T1");
    sb_knobs knobs = test_knobs("delta_rule=recurrent");
    const sb_sim *sim = NULL;
    sb_error err = {{0}};
    assert_int_equal(sb_sim_find("sequential", &sim, &err), SB_OK);
    forced_run run = fused_run(model, &sim->backend.ops, &knobs);
    run.hook = wrong_k_norm;
    forced_run_all(&run);
    const sb_place *p = &run.verdicts.first_failure;
    printf("%s\n", p->words);
    assert_int_equal(run.verdicts.verdict, SB_VERDICT_FAIL);
    assert_int_equal(p->layer, 3);
    assert_string_equal(p->after, "layers.3.self_attn.q_proj");
    assert_string_equal(p->name, "layers.3.self_attn.core_out");
    assert_non_null(strstr(p->words, "the fault lies between layers.3.self_attn.q_proj and "
                                     "layers.3.self_attn.core_out"));
    sb_verdicts_free(&run.verdicts);
    sb_model_close(model);
}

/* The ledger of a step against three others: the ledger of `samebit floor` for the same checkpoint,
 * the parameters of its matrices, and the ops of a run. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ref/run/session.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/sparse.h"
#include "tools/bench/moves_kernels.h"

#define PROGRAM "test_moves"

static sb_moves_model model_of(const char *preset, const sb_moves_recipe *recipe)
{
    sb_error err;
    sb_moves_model m;
    if (sb_moves_model_of(preset, recipe, &m, &err))
        fail_msg("%s", err.text);
    return m;
}

static const sb_moves_recipe *recipe_of(const char *name)
{
    sb_error err;
    const sb_moves_recipe *recipe;
    assert_int_equal(sb_moves_recipe_find(name, &recipe, &err), SB_OK);
    return recipe;
}

static sb_floor_options options_at(double kv_bytes, uint64_t context, uint32_t draft)
{
    return (sb_floor_options){.bandwidth = 255e9,
                              .context = context,
                              .draft = draft,
                              .accept = 0.6,
                              .kv_bytes = kv_bytes,
                              .state_bytes = 4};
}

/* --- against the ledger of floor -------------------------------------------------------------- */

static void stored_alike(const sb_moves_weights *ours, const sb_ledger_row *theirs)
{
    for (unsigned class = 0; class < SB_FLOOR_loader; class ++) {
        uint64_t stored = 0, routed = 0;
        for (unsigned op = 0; op < SB_MOVES_OPS; op++)
            if (sb_moves_op_class((sb_moves_op)op) == (sb_floor_class) class) {
                stored += ours[op].stored;
                routed += ours[op].routed;
            }
        if (stored != theirs[class].stored || routed != theirs[class].routed)
            fail_msg("%s: %llu bytes here, %llu in floor",
                     sb_floor_class_id((sb_floor_class) class), (unsigned long long)stored,
                     (unsigned long long)theirs[class].stored);
    }
}

/* Sums with terms in different order: equal except for their last bits. */
static void nearly(double a, double b)
{
    if (fabs(a - b) > 1e-12 * fabs(b))
        fail_msg("%.17g here, %.17g in floor", a, b);
}

static void pass_alike(const sb_moves *step, const sb_floor_pass *pass)
{
    double read[SB_FLOOR_CLASSES] = {0};
    for (unsigned op = 0; op < SB_MOVES_OPS; op++)
        read[sb_moves_op_class((sb_moves_op)op)] += step->row[op].weights;
    for (unsigned class = 0; class < SB_FLOOR_CLASSES; class ++)
        nearly(read[class], pass->read[class]);
    nearly(step->total.kept, pass->state + pass->conv + pass->kv_read + pass->kv_written);
    nearly(sb_moves_bytes(&step->total), pass->total);
}

static void same_as_floor(const char *preset, const char *format)
{
    char name[64];
    snprintf(name, sizeof name, "%s-%s", preset, format);
    const char *folder = test_path(PROGRAM, name);
    const sb_make_options made = {.dir = folder, .preset = preset, .format = format, .seed = 42};
    const sb_moves_recipe recipe = {.name = format, .format = format};
    const sb_floor_options o = options_at(1, 1000, 2);
    sb_error err;
    sb_ledger ledger;
    sb_floor f;
    sb_moves step;
    sb_moves_round round;
    test_sparse_make(&made);
    if (sb_ledger_read(folder, &ledger, &err))
        fail_msg("%s", err.text);
    sb_moves_model m = model_of(preset, &recipe);
    stored_alike(m.trunk, ledger.trunk);
    stored_alike(m.mtp, ledger.mtp);
    sb_floor_compute(&ledger, &o, &f);
    sb_moves_compute(&m, &o, 0, 1, &step);
    pass_alike(&step, &f.token);
    sb_moves_compute(&m, &o, 0, 3, &step);
    pass_alike(&step, &f.verify);
    sb_moves_compute(&m, &o, 1, 1, &step);
    pass_alike(&step, &f.draft);
    sb_moves_round_of(&m, &o, 2, 0, &round);
    nearly(round.verify + round.drafts, f.round / f.token.total);
    assert_true(fabs(round.break_even - f.break_even) < 1e-9);
}

TEST(bytes_of_floor)
{
    static const char *const presets[] = {"T1", "T2", "T4", "T5"};
    static const char *const formats[] = {"bf16",     "fp8-block",      "fp8-tensor",
                                          "nvfp4-ct", "nvidia-mix",     "mxfp4",
                                          "int4-ct",  "int4-autoround", "int8-gptq"};
    for (size_t p = 0; p < sizeof presets / sizeof *presets; p++)
        for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
            same_as_floor(presets[p], formats[f]);
    same_as_floor("35b-a3b", "nvidia-mix");
}

/* The figures of docs/floor.md, in GB per token. */
TEST(bytes_of_recipes)
{
    static const struct {
        const char *name;
        double small, large;
    } known[] = {{"bf16", 6.021, 18.323},
                 {"fp8", 3.609, 10.132},
                 {"nvidia-mix", 2.382, 7.251},
                 {"nvfp4-all", 1.823, 5.451}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (int large = 0; large < 2; large++) {
            const sb_moves_recipe *r = recipe_of(known[i].name);
            sb_moves_model m = model_of(large ? "122b-a10b" : "35b-a3b", r);
            sb_floor_options o = options_at(r->kv_bytes, 0, 0);
            sb_moves step;
            sb_moves_compute(&m, &o, 0, 1, &step);
            double off =
                sb_moves_bytes(&step.total) / 1e9 - (large ? known[i].large : known[i].small);
            if (fabs(off) > 0.0006)
                fail_msg("%s: off by %.4f GB", known[i].name, off);
        }
}

/* --- against the parameters ------------------------------------------------------------------- */

/* One row of a step multiplies each weight of a matrix once; in BF16 a weight has two bytes. */
TEST(one_product_per_weight)
{
    static const sb_moves_op matrices[] = {
        SB_MOVES_fusion,      SB_MOVES_gdn_in,    SB_MOVES_gdn_out,    SB_MOVES_conv,
        SB_MOVES_att_in,      SB_MOVES_att_out,   SB_MOVES_router,     SB_MOVES_experts_in,
        SB_MOVES_experts_out, SB_MOVES_shared_in, SB_MOVES_shared_out, SB_MOVES_shared_gate,
        SB_MOVES_dense_in,    SB_MOVES_dense_out, SB_MOVES_head};
    static const char *const presets[] = {"T1", "T3", "T4", "T5", "T6", "35b-a3b"};
    for (size_t p = 0; p < sizeof presets / sizeof *presets; p++)
        for (int mtp = 0; mtp < 2; mtp++) {
            sb_moves_model m = model_of(presets[p], recipe_of("bf16"));
            sb_floor_options o = options_at(2, 0, 0);
            sb_moves step;
            sb_moves_compute(&m, &o, mtp, 1, &step);
            for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
                const sb_moves_row *row = &step.row[matrices[i]];
                if (2 * row->macs != row->weights)
                    fail_msg("%s, %s: %g bytes, %g products", presets[p],
                             sb_moves_op_id(matrices[i]), row->weights, row->macs);
            }
        }
}

/* The keys that rows read: those of the context, and those of the step up to their own. */
TEST(products_of_attention)
{
    sb_moves_model m = model_of("T1", recipe_of("bf16")); /* 2 such layers, 4 heads of 64 */
    sb_floor_options o = options_at(2, 10, 0);
    sb_moves step;
    sb_moves_compute(&m, &o, 0, 3, &step);
    assert_true(step.row[SB_MOVES_attention].macs == 2 * (11 + 12 + 13) * 4 * 64 * 2.0);
}

/* --- kernels ---------------------------------------------------------------------------------- */

/* B-16: "what packing adds" - to a matrix. Rows are padded to a tile; columns would be padded to a
 * chunk, but no matrix here needs that. FP8 gets a scale per row, with blocks a scale per row and
 * block. The checkpoint's factors of the tensor and of its input and its block scales are
 * subtracted. Experts get one factor each. */
static double packing_adds(const sb_moves_matrix *m)
{
    double rows = 16.0 * ceil(m->rows / 16.0), blocks = ceil(m->cols / 128.0);
    assert_int_equal(m->cols % 64, 0);
    switch (m->scheme) {
    case SB_SCHEME_plain:
        return 2 * (rows - m->rows) * m->cols;
    case SB_SCHEME_nvfp4_modelopt:
        assert_int_equal(m->rows % 16, 0);
        return -8;
    case SB_SCHEME_fp8_tensor:
        assert_int_equal(m->rows % 16, 0);
        return 4 * rows - 8;
    case SB_SCHEME_fp8_block:
        assert_int_equal(m->rows % 16, 0);
        return 4 * rows * blocks - 2 * ceil(m->rows / 128.0) * blocks;
    default:
        fail_msg("scheme %d", m->scheme);
        return 0;
    }
}

/* The number of norm, tap and decay values, n times; kernels have each in binary32. */
static double small_values(const sb_config *c, sb_moves_op op, double n)
{
    switch (op) {
    case SB_MOVES_mixer_norm:
    case SB_MOVES_mlp_norm:
    case SB_MOVES_final_norm:
        return n * c->hidden_size;
    case SB_MOVES_fusion_norms:
        return n * 2 * c->hidden_size;
    case SB_MOVES_conv:
        return n * sb_config_conv_channels(c) * c->conv_kernel;
    case SB_MOVES_gates:
        return n * 2 * c->lin_v_heads;
    case SB_MOVES_gdn_norm:
        return n * c->lin_v_dim;
    case SB_MOVES_qk_norm:
        return n * 2 * c->head_dim;
    case SB_MOVES_rope: /* frequencies, for queries and for keys */
        return n * 2 * (c->rotary_dim / 2);
    default:
        return 0;
    }
}

static double added_to(const sb_moves_model *m, sb_moves_op op, int mtp, uint32_t width)
{
    const sb_config *c = &m->config;
    int whose = op == SB_MOVES_head ? 0 : mtp;
    double sum = 0, read = 1;
    if (c->experts)
        read = sb_floor_union(c->experts, c->experts_per_token, width) / c->experts;
    for (uint32_t i = 0; i < m->matrices; i++)
        if (m->matrix[i].op == op && m->matrix[i].in_mtp == whose)
            sum += m->matrix[i].routed
                       ? read * m->matrix[i].count * (packing_adds(&m->matrix[i]) + 4)
                       : m->matrix[i].count * packing_adds(&m->matrix[i]);
    return sum;
}

/* Weights, op by op: the stored ones plus what packing adds. */
static void weights_of_kernels(const sb_moves_model *m, const sb_floor_options *o, int mtp,
                               uint32_t width)
{
    static sb_moves_kernels k;
    sb_moves step;
    double packed[SB_MOVES_OPS] = {0}, sum = 0;
    sb_moves_kernels_of(
        m, o, &(sb_kernel_call){.part = mtp ? SB_MOVES_DRAFT : SB_MOVES_CALL, .rows = width}, &k);
    sb_moves_compute(m, o, mtp, width, &step);
    assert_true(k.count < SB_MOVES_LAUNCHES);
    for (uint32_t i = 0; i < k.count; i++) {
        packed[k.row[i].op] += k.row[i].weights;
        sum += k.row[i].weights;
    }
    for (unsigned op = 0; op < SB_MOVES_OPS; op++) {
        double stored = step.row[op].weights;
        double small = small_values(&m->config, (sb_moves_op)op,
                                    sb_moves_times(&m->config, mtp, (sb_moves_op)op));
        double should = small > 0              ? 4 * small
                        : op == SB_MOVES_embed ? stored
                                               : stored + added_to(m, (sb_moves_op)op, mtp, width);
        if (fabs(packed[op] - should) > 1e-9 * should)
            fail_msg("%s: %.0f bytes, not %.0f; %.0f are stored", sb_moves_op_id((sb_moves_op)op),
                     packed[op], should, stored);
    }
    assert_true(fabs(sum - k.total.weights) <= 1e-9 * sum);
    nearly(k.stored, step.total.weights);
}

/* Products and kept bytes as in the ops, except that the convolution keeps binary32, and that the
 * keys and values of the call's rows are counted once more. */
static void rest_of_kernels(const sb_moves_model *m, const sb_floor_options *o, int mtp,
                            uint32_t width)
{
    static sb_moves_kernels k;
    sb_moves step;
    double macs[SB_MOVES_OPS] = {0}, kept[SB_MOVES_OPS] = {0};
    const sb_config *c = &m->config;
    sb_moves_kernels_of(
        m, o, &(sb_kernel_call){.part = mtp ? SB_MOVES_DRAFT : SB_MOVES_CALL, .rows = width}, &k);
    sb_moves_compute(m, o, mtp, width, &step);
    for (uint32_t i = 0; i < k.count; i++) {
        macs[k.row[i].op] += k.row[i].macs;
        kept[k.row[i].op] += k.row[i].kept;
    }
    for (unsigned op = 0; op < SB_MOVES_OPS; op++) {
        const double n = sb_moves_times(c, mtp, (sb_moves_op)op);
        double should = step.row[op].kept;
        if (op == SB_MOVES_conv)
            should = n * 8 * sb_config_conv_channels(c) * (c->conv_kernel - 1);
        if (op == SB_MOVES_attention)
            should += n * 2 * sb_config_kv_width(c) * o->kv_bytes * width;
        nearly(kept[op], should);
        if (op != SB_MOVES_rope) /* the ledger of ops counts whole heads */
            nearly(macs[op], step.row[op].macs);
    }
}

TEST(ledger_of_kernels)
{
    static const char *const presets[] = {"35b-a3b", "122b-a10b"};
    static const char *const names[] = {"nvidia-mix", "nvfp4-all", "fp8", "bf16"};
    for (size_t p = 0; p < 2; p++)
        for (size_t i = 0; i < 4; i++) {
            const sb_moves_recipe *r = recipe_of(names[i]);
            sb_moves_model m = model_of(presets[p], r);
            sb_floor_options o = options_at(r->kv_bytes, 300, 0);
            for (uint32_t width = 1; width <= 9; width++) {
                weights_of_kernels(&m, &o, 0, width);
                rest_of_kernels(&m, &o, 0, width);
            }
            for (uint32_t width = 64; width <= 4096; width *= 8) { /* prompts */
                weights_of_kernels(&m, &o, 0, width);
                rest_of_kernels(&m, &o, 0, width);
            }
            weights_of_kernels(&m, &o, 1, 1);
            rest_of_kernels(&m, &o, 1, 1);
        }
}

/* A verify also writes the states of all its rows; nothing else changes. */
TEST(trails_of_a_verify)
{
    static sb_moves_kernels with, without;
    sb_moves_model m = model_of("35b-a3b", recipe_of("nvidia-mix"));
    sb_floor_options o = options_at(1, 0, 3);
    const sb_config *c = &m.config;
    double states = 4.0 * c->lin_v_heads * c->lin_k_dim * c->lin_v_dim;
    double columns = 4.0 * sb_config_conv_channels(c) * (c->conv_kernel - 1);
    for (int fused = 0; fused < 2; fused++) {
        sb_kernel_call call = {.rows = 4, .fused = fused};
        sb_moves_kernels_of(&m, &o, &call, &without);
        call.trail = 1;
        sb_moves_kernels_of(&m, &o, &call, &with);
        /* with fused ops they replace the state of the last row */
        nearly(with.total.kept - without.total.kept, 30 * (4 - fused) * (states + columns));
        nearly(with.total.weights, without.total.weights);
        assert_int_equal(with.total.launches, without.total.launches);
    }
}

/* The fused kernels have the same matrices and products as separate ops, except that gate and up
 * share one factor per expert. */
TEST(fused_and_apart)
{
    static sb_moves_kernels fused, apart;
    for (uint32_t rows = 1; rows <= SB_MOVES_FUSED_ROWS; rows++) {
        sb_moves_model m = model_of("35b-a3b", recipe_of("nvidia-mix"));
        sb_floor_options o = options_at(1, 0, 3);
        double weights[2][SB_MOVES_OPS] = {{0}};
        sb_moves_kernels_of(&m, &o, &(sb_kernel_call){.rows = rows}, &apart);
        sb_moves_kernels_of(&m, &o, &(sb_kernel_call){.rows = rows, .fused = 1}, &fused);
        nearly(fused.total.macs, apart.total.macs);
        assert_true(2 * fused.total.launches < apart.total.launches);
        assert_true(fused.total.activations < apart.total.activations);
        for (int i = 0; i < 2; i++) {
            const sb_moves_kernels *k = i ? &fused : &apart;
            for (uint32_t at = 0; at < k->count; at++)
                if (k->row[at].kernel == SB_COST_linear || k->row[at].kernel == SB_COST_tile)
                    weights[i][k->row[at].op] += k->row[at].weights;
        }
        weights[1][SB_MOVES_experts_in] +=
            4 * 40 * sb_floor_union(m.config.experts, m.config.experts_per_token, rows);
        for (unsigned op = 0; op < SB_MOVES_OPS; op++)
            nearly(weights[1][op], weights[0][op]);
    }
}

/* A profile that quantizes inputs keeps products and kept bytes, op by op; weights differ only by
 * padding. */
static void quantized_alike(const sb_moves_model *m, const sb_floor_options *o, const char *profile,
                            sb_kernel_call call)
{
    static sb_moves_kernels k[2];
    double macs[2][SB_MOVES_OPS] = {{0}}, kept[2][SB_MOVES_OPS] = {{0}};
    sb_knobs knobs;
    assert_int_equal(sb_knobs_profile(&knobs, profile, NULL), SB_OK);
    for (int i = 0; i < 2; i++) {
        call.knobs = i ? &knobs : NULL;
        sb_moves_kernels_of(m, o, &call, &k[i]);
        assert_true(k[i].count < SB_MOVES_LAUNCHES);
        for (uint32_t at = 0; at < k[i].count; at++) {
            macs[i][k[i].row[at].op] += k[i].row[at].macs;
            kept[i][k[i].row[at].op] += k[i].row[at].kept;
        }
    }
    for (unsigned op = 0; op < SB_MOVES_OPS; op++) {
        nearly(macs[1][op], macs[0][op]);
        nearly(kept[1][op], kept[0][op]);
    }
    /* a fused kernel does not quantize its input; otherwise quantizing replaces staging */
    assert_true(call.fused ? k[1].total.launches > k[0].total.launches
                           : k[1].total.launches == k[0].total.launches);
    assert_true(fabs(k[1].total.weights / k[0].total.weights - 1) < 0.005);
}

TEST(ledger_of_profiles)
{
    static const char *const of[][2] = {{"nvidia-mix", "sm121-w8a8"},
                                        {"nvidia-mix", "sm121-w4a4"},
                                        {"nvfp4-all", "sm121-w4a4"},
                                        {"fp8", "sm121-w8a8"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const sb_moves_recipe *r = recipe_of(of[i][0]);
        const sb_moves_model m = model_of("35b-a3b", r);
        const sb_floor_options o = options_at(r->kv_bytes, 300, 0);
        for (uint32_t rows = 1; rows <= 9; rows += 4)
            quantized_alike(&m, &o, of[i][1], (sb_kernel_call){.rows = rows, .fused = 1});
        for (uint32_t rows = 64; rows <= 4096; rows *= 8)
            quantized_alike(&m, &o, of[i][1], (sb_kernel_call){.rows = rows});
    }
}

/* --- against a run ---------------------------------------------------------------------------- */

enum { MOST = 1024 };
typedef struct calls {
    struct {
        sb_op op;
        uint32_t layer;
        char name[64];
    } seen[MOST];
    uint32_t count;
} calls;

/* With a hook, the op of the experts is called once per expert; it counts once. */
static sb_status note(void *ctx, const sb_op_call *call)
{
    calls *c = ctx;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->seen[i].op == call->op && c->seen[i].layer == call->layer &&
            strcmp(c->seen[i].name, call->name) == 0)
            return sb_op_run(call);
    assert_true(c->count < MOST);
    c->seen[c->count].op = call->op;
    c->seen[c->count].layer = call->layer;
    snprintf(c->seen[c->count].name, sizeof c->seen[0].name, "%s", call->name);
    c->count++;
    return sb_op_run(call);
}

/* The ops of a step of one token and its logits, and of a step of the MTP head. */
TEST(calls_of_a_run)
{
    static const char *const presets[] = {"T1", "T4", "T5"};
    static float logits[1024];
    for (size_t p = 0; p < sizeof presets / sizeof *presets; p++) {
        sb_error err;
        calls c = {.count = 0};
        sb_session *session;
        sb_moves step;
        sb_moves_model m = model_of(presets[p], recipe_of("bf16"));
        sb_floor_options o = options_at(2, 0, 0);
        sb_model *model =
            test_model_open(test_checkpoint(PROGRAM, presets[p], NULL, "bf16", "text"));
        sb_session_options options = {.hook = note, .hook_ctx = &c};
        for (int mtp = 0; mtp < 2; mtp++) {
            options.mtp = mtp;
            assert_int_equal(sb_session_new(model, &options, &session, &err), SB_OK);
            c.count = 0;
            assert_int_equal(sb_session_feed(session, &(uint32_t){5}, 1, &err), SB_OK);
            if (mtp)
                c.count = 0;
            assert_int_equal(mtp ? sb_session_draft(session, 7, logits, &err)
                                 : sb_session_logits(session, 0, logits, &err),
                             SB_OK);
            sb_moves_compute(&m, &o, mtp, 1, &step);
            assert_int_equal(c.count, step.total.calls);
            sb_session_free(session);
        }
        sb_model_close(model);
    }
}

/* --- speculation ------------------------------------------------------------------------------ */

/* By bytes alone, at acceptance 0.6 without context: the largest number of drafts that still
 * pays. */
TEST(drafts_that_pay)
{
    static const struct {
        const char *name;
        uint32_t most;
    } known[] = {{"nvfp4-all", 1}, {"nvidia-mix", 2}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const sb_moves_recipe *r = recipe_of(known[i].name);
        sb_moves_model m = model_of("35b-a3b", r);
        sb_floor_options o = options_at(r->kv_bytes, 0, 0);
        sb_moves_round round;
        for (uint32_t k = 1; k <= 4; k++) {
            sb_moves_round_of(&m, &o, k, 0, &round);
            assert_int_equal(sb_floor_emitted(k, 0.6) >= round.verify + round.drafts,
                             k <= known[i].most);
            assert_int_equal(round.break_even <= 0.6, k <= known[i].most);
        }
    }
}

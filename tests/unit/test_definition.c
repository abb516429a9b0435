/* test_definition.c - the twin (ref/fast) against the definition (ref/ops): every op of ops.def,
 * and the experts, to the bit, in every output, state and trail; under every instruction set of
 * this machine, every profile, every value of every knob, and numbers of every kind.
 *
 * An op without a definition_<op>() in definition_shapes.c is a link error. The tests print the
 * time of
 * the definition for its largest shape divided by the time of its twin. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ref/base/bytes.h"
#include "ref/base/pool.h"
#include "ref/base/rng.h"
#include "ref/fast/dot/dot.h"
#include "ref/ops/knob.h"
#include "ref/run/backend.h"
#include "tests/lib/check_all.h"
#include "tests/lib/quant_layer.h"
#include "tests/unit/definition.h"

static const sb_backend *definition, *twin;

static void select_isa(const char *name)
{
    assert_int_equal(sb_dot_select(name, NULL), SB_OK);
}

/* --- the arrays of an op, and whether two runs have written the same -------------------------- */

static int alike(float x, float y)
{
    return sb_bits_f32(x) == sb_bits_f32(y) || (x != x && y != y);
}

static int differ(const char *name, const float *x, const float *y, size_t n, char *what)
{
    for (size_t i = 0; x && i < n; i++)
        if (!alike(x[i], y[i])) {
            sprintf(what, "%.30s[%zu] is %a, by the definition %a", name, i, (double)y[i],
                    (double)x[i]);
            return 1;
        }
    return 0;
}

static int differ_ids(const char *name, const uint32_t *x, const uint32_t *y, size_t n, char *what)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i]) {
            sprintf(what, "%.30s[%zu] is %u, by the definition %u", name, i, (unsigned)y[i],
                    (unsigned)x[i]);
            return 1;
        }
    return 0;
}

/* Inputs are drawn; outputs are preset to values that no op writes. */
static float *unwritten(definition_case *c, size_t n)
{
    float *x = definition_room(c, n, sizeof *x);
    memset(x, 0xa5, n * sizeof *x);
    return x;
}

#define SB_ARGS(op)                                                                                \
    static void arrays_of_##op(definition_case *c, sb_##op##_args *a)                              \
    {                                                                                              \
        (void)c;
#define SB_ARGS_END(op) }
#define SB_INPUT(op, member, rows, cols, stride)                                                   \
    a->member = definition_values(c, (size_t)(rows) * (stride));
#define SB_INPLACE(op, member, rows, cols)                                                         \
    a->member = definition_values(c, (size_t)(rows) * (cols));
#define SB_STATE(op, member, rows, cols) SB_INPLACE(op, member, rows, cols)
#define SB_TRAIL(op, member, rows, cols)                                                           \
    if (c->variant % 2 && SB_OP_##op != SB_OP_delta_rule_chunk)                                    \
        a->member = unwritten(c, (size_t)(rows) * (cols));
#define SB_OUTPUT(op, member, rows, cols) a->member = unwritten(c, (size_t)(rows) * (cols));
#define SB_SECOND(op, member, rows, cols)                                                          \
    if (c->variant % 2)                                                                            \
        a->member = unwritten(c, (size_t)(rows) * (cols));
#define SB_CHOICE(op, member, rows, cols)                                                          \
    a->member = definition_room(c, (size_t)(rows) * (cols), sizeof *a->member);
#define SB_SCALAR(op, member) a->member = *definition_values(c, 1);
#include "ref/ops/args.def"

#define SB_ARGS(op)                                                                                \
    static int differ_in_##op(const sb_##op##_args *a, const sb_##op##_args *b, char *what)        \
    {
#define SB_ARGS_END(op)                                                                            \
    return 0;                                                                                      \
    }
#define DIFFER(member, rows, cols)                                                                 \
    if (differ(#member, a->member, b->member, (size_t)(rows) * (cols), what))                      \
        return 1;
#define SB_INPLACE(op, member, rows, cols) DIFFER(member, rows, cols)
#define SB_STATE(op, member, rows, cols) DIFFER(member, rows, cols)
#define SB_TRAIL(op, member, rows, cols) DIFFER(member, rows, cols)
#define SB_OUTPUT(op, member, rows, cols) DIFFER(member, rows, cols)
#define SB_SECOND(op, member, rows, cols) DIFFER(member, rows, cols)
#define SB_CHOICE(op, member, rows, cols)                                                          \
    if (differ_ids(#member, a->member, b->member, (size_t)(rows) * (cols), what))                  \
        return 1;
#include "ref/ops/args.def"
#undef DIFFER

/* --- one op of the table ---------------------------------------------------------------------- */

typedef struct row {
    const char *name;
    int (*shape)(definition_case *c, size_t s, void *args);
    void (*arrays)(definition_case *c, void *args);
    sb_status (*run)(const sb_backend *by, const sb_knobs *knobs, const void *args);
    int (*differs)(const void *a, const void *b, char *what);
    size_t cases;
    double slow, fast; /* times of the largest shape */
} row;

/* The experts as one more op of the table. The definition runs the linear op of each row and
 * slot. */
typedef union any_args {
    sb_any_args op;
    sb_expert_linear_args experts[2];
} any_args;

#define SB_OP(name, clause)                                                                        \
    static int shape_##name(definition_case *c, size_t s, void *args)                              \
    {                                                                                              \
        return definition_##name(c, s, args);                                                      \
    }                                                                                              \
    static void fill_##name(definition_case *c, void *args)                                        \
    {                                                                                              \
        arrays_of_##name(c, args);                                                                 \
    }                                                                                              \
    static sb_status run_##name(const sb_backend *by, const sb_knobs *knobs, const void *args)     \
    {                                                                                              \
        return by->ops.name(knobs, args);                                                          \
    }                                                                                              \
    static int differs_##name(const void *a, const void *b, char *what)                            \
    {                                                                                              \
        return differ_in_##name(a, b, what);                                                       \
    }
#include "ref/ops/ops.def"
#undef SB_OP

static int shape_experts(definition_case *c, size_t s, void *args)
{
    return definition_experts(c, s, args);
}

static void fill_experts(definition_case *c, void *args)
{
    sb_expert_linear_args *a = args;
    for (size_t p = 0; p < 2; p++)
        a[p].out = unwritten(c, a[p].rows * a[p].kept * a[p].weight->rows);
}

static sb_status run_experts(const sb_backend *by, const sb_knobs *knobs, const void *args)
{
    const sb_expert_linear_args *a = args;
    if (by->experts)
        return by->experts(knobs, a, 2);
    for (size_t p = 0; p < 2; p++, a++)
        for (size_t i = 0; i < a->rows * a->kept; i++) {
            const sb_matrix *w = sb_expert_weight(a, a->ids[i]);
            const sb_linear_args one = {w, a->kind, a->in + i / a->each * w->cols, 1,
                                        a->out + i * w->rows};
            const sb_status status = by->ops.linear(knobs, &one);
            if (status)
                return status;
        }
    return SB_OK;
}

static int differs_experts(const void *x, const void *y, char *what)
{
    const sb_expert_linear_args *a = x, *b = y;
    for (size_t p = 0; p < 2; p++)
        if (differ("out", a[p].out, b[p].out, a->rows * a->kept * a->weight->rows, what))
            return 1;
    return 0;
}

static row rows[] = {
#define SB_OP(name, clause) {#name, shape_##name, fill_##name, run_##name, differs_##name, 0, 0, 0},
#include "ref/ops/ops.def"
#undef SB_OP
    {"experts", shape_experts, fill_experts, run_experts, differs_experts, 0, 0, 0}};
enum { EXPERTS = SB_OP_COUNT };

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

/* --- knobs ------------------------------------------------------------------------------------ */

/* Sets knobs number i: first the profiles, then each value of each knob in a BF16 model and in an
 * F16 model with rounded parameters. Returns 0 beyond the last. */
static int knobs_of(size_t i, sb_knobs *knobs, const char **name)
{
    const size_t profiles = sb_profile_count();
    if (i < profiles) {
        *name = sb_profile_name(i);
        assert_int_equal(sb_knobs_profile(knobs, *name, NULL), SB_OK);
        return 1;
    }
    if (i - profiles >= 2 * SB_VALUE_COUNT)
        return 0;
    const sb_knob_value value = (sb_knob_value)((i - profiles) / 2);
    const int half = (i - profiles) % 2;
    sb_knobs_exact(knobs);
    knobs->value[SB_KNOB_act] = half ? SB_act_f16 : SB_act_bf16;
    knobs->value[SB_KNOB_params] = half ? SB_params_act : SB_params_stored;
    knobs->value[sb_knob_of_value(value)] = value;
    *name = sb_knob_value_name(value);
    return 1;
}

/* --- the cases -------------------------------------------------------------------------------- */

/* One case: the definition once, and its twin under each kernel set. Returns 0 if there is no shape
 * s. */
static int hold(row *r, size_t s, definition_regime regime, size_t knob, int last)
{
    definition_case c = {.seed = s * 1000003 + regime * 101 + knob, .regime = regime};
    c.variant = sb_rng_below(c.seed, 1u << 30, 90);
    any_args wanted, got;
    sb_knobs knobs;
    const char *name;
    char what[160];
    assert_true(knobs_of(knob, &knobs, &name));
    memset(&wanted, 0, sizeof wanted);
    if (!r->shape(&c, s, &wanted))
        return 0;
    const definition_case shaped = c;
    got = wanted;
    r->arrays(&c, &wanted);
    select_isa("exact");
    double before = now();
    assert_int_equal(r->run(definition, &knobs, &wanted), SB_OK);
    r->slow += last ? now() - before : 0;
    const size_t written = c.blocks;
    for (size_t i = 1; sb_dot_set(i); i++) {
        c.drawn = shaped.drawn; /* draw the same values again */
        c.arrays = shaped.arrays;
        r->arrays(&c, &got);
        select_isa(sb_dot_set(i)->name);
        before = now();
        assert_int_equal(r->run(twin, &knobs, &got), SB_OK);
        r->fast += last && !sb_dot_set(i + 1) ? now() - before : 0;
        if (r->differs(&wanted, &got, what))
            fail_msg("%s, shape %zu, regime %d, %s, %s: %s", r->name, s, (int)regime, name,
                     sb_dot_set(i)->name, what);
        r->cases++;
        while (c.blocks > written)
            free(c.block[--c.blocks]);
    }
    definition_free(&c);
    return 1;
}

static size_t shapes_of(const row *r)
{
    size_t n = 0;
    any_args args;
    for (int more = 1; more; n += (size_t)more) {
        definition_case c = {.seed = 1};
        more = r->shape(&c, n, &args);
        definition_free(&c);
    }
    return n;
}

/* The test runs one combination out of this number. Ops with layers have shapes for every
 * container. */
static size_t thinned(const row *r, size_t shapes)
{
    if (check_all())
        return 1;
    if (shapes > 20)
        return check_few() ? 101 : r == &rows[EXPERTS] ? 61 : 41;
    return 11;
}

/* The same for the values of knobs; two ops have slow cases. */
static size_t thinned_values(const row *r, size_t shapes)
{
    const int slow = r == &rows[SB_OP_attention] || r == &rows[SB_OP_delta_rule_chunk];
    return check_all() || shapes > 20 ? thinned(r, shapes) : slow || check_few() ? 9 : 4;
}

/* Every shape with every regime and profile, and every value of every knob. In a short run, one of
 * several of these combinations, so that every pair of settings still occurs. */
static void hold_row(row *r)
{
    const size_t shapes = shapes_of(r), profiles = sb_profile_count();
    const size_t thin = thinned(r, shapes), thin_values = thinned_values(r, shapes);
    sb_knobs knobs;
    const char *name;
    for (size_t s = 0; s < shapes; s++)
        for (size_t regime = 0; regime < REGIMES; regime++)
            for (size_t p = 0; p < profiles; p++)
                if ((s + 2 * regime + 3 * p) % thin == 0)
                    hold(r, s, (definition_regime)regime, p, 0);
    for (size_t k = profiles; knobs_of(k, &knobs, &name); k++)
        for (size_t s = 0; s < shapes; s++)
            if ((s + k) % thin_values == 0)
                hold(r, s, (definition_regime)(k % REGIMES), k, 0);
    assert_true(r->cases > 100);
}

static void time_row(row *r)
{
    const size_t last = shapes_of(r) - 1;
    hold(r, last, REGIME_RANDOM, 0, 1);
    printf("%-16s %7zu cases, definition / twin %8.1f\n", r->name, r->cases, r->slow / r->fast);
}

#define SB_OP(name, clause)                                                                        \
    TEST(test_##name)                                                                              \
    {                                                                                              \
        hold_row(&rows[SB_OP_##name]);                                                             \
        time_row(&rows[SB_OP_##name]);                                                             \
    }
#include "ref/ops/ops.def"
#undef SB_OP

TEST(test_experts)
{
    hold_row(&rows[EXPERTS]);
    time_row(&rows[EXPERTS]);
}

/* Compares the linear op on one layer; the layers are every variant of every container. */
static void hold_container(const sb_matrix *m, size_t knob, const char *of)
{
    enum { INPUTS = 3 };
    definition_case c = {.seed = knob, .variant = (unsigned)knob};
    const size_t outputs = (size_t)INPUTS * m->rows;
    float *wanted = unwritten(&c, outputs), *got = unwritten(&c, outputs);
    sb_linear_args a = {.weight = m, .in = definition_values(&c, (size_t)INPUTS * m->cols)};
    char what[160];
    sb_knobs knobs;
    const char *name;
    assert_true(knobs_of(knob, &knobs, &name));
    a.rows = INPUTS;
    a.out = wanted;
    select_isa("exact");
    assert_int_equal(definition->ops.linear(&knobs, &a), SB_OK);
    a.out = got;
    for (size_t i = 1; sb_dot_set(i); i++) {
        memset(got, 0xa5, outputs * sizeof *got);
        select_isa(sb_dot_set(i)->name);
        assert_int_equal(twin->ops.linear(&knobs, &a), SB_OK);
        if (differ("out", wanted, got, outputs, what))
            fail_msg("%s, %s, %s: %s", of, name, sb_dot_set(i)->name, what);
    }
    definition_free(&c);
}

TEST(test_containers)
{
    size_t count, profiles = sb_profile_count();
    const quant_spec *s = quant_variants(&count);
    for (size_t i = 0; i < count; i++) {
        quant_layer l = quant_layer_draw(&s[i], 8);
        sb_checkpoint *checkpoint;
        sb_found found;
        quant_find(&l, "test_definition", &checkpoint, &found);
        for (size_t p = 0; p < profiles; p++)
            if (check_all() || (p + i) % 7 == 0)
                hold_container(&found.matrix, p, quant_spec_text(&s[i]));
        hold_container(&found.matrix, profiles + 2 * (SB_dequant_exact + i % 6) + i / 6 % 2,
                       quant_spec_text(&s[i]));
        sb_checkpoint_close(checkpoint);
        quant_layer_free(&l);
    }
}

/* `exact` runs only the definition, every other kernel set the twin. */
TEST(test_which_is_chosen)
{
    assert_ptr_not_equal(definition, twin);
    assert_null(definition->experts);
    assert_non_null(twin->experts);
    assert_string_equal(definition->name, twin->name);
    for (size_t i = 0; sb_dot_set(i); i++) {
        select_isa(sb_dot_set(i)->name);
        assert_ptr_equal(sb_backend_ref(), i == 0 ? definition : twin);
    }
#define SB_OP(name, clause)                                                                        \
    assert_non_null(definition->ops.name);                                                         \
    assert_non_null(twin->ops.name);
#include "ref/ops/ops.def"
#undef SB_OP
}

TEST_FIXTURE(start)
{
    sb_error err;
    if (sb_math_start("exact", &err)) {
        print_error("%s\n", err.text);
        return -1;
    }
    definition = sb_backend_ref();
    select_isa("auto");
    twin = sb_backend_ref();
    sb_threads_set(3);
    return 0;
}

TEST_FIXTURE(end)
{
    select_isa("auto");
    sb_threads_set(0);
    return 0;
}
TEST_GROUP(start, end)

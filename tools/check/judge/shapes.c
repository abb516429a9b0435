/* shapes.c - checks 7, 8 and 32: shapes and dtypes, as stated in the headers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "tools/check/scan/group.h"
#include "tools/check/judge/structure.h"

static const char *group_key(const sb_unit *unit, const char *what, char *key, size_t size)
{
    snprintf(key, size, "%s: %s", unit->kind, what);
    return key;
}

enum { KEY = SB_MAX_TENSOR_NAME + 64 };

/* Reports why a layer cannot be read, if its shapes are the reason. */
static void tell_fault(sb_check *check, sb_groups *groups, const sb_unit *unit)
{
    char key[KEY];
    unsigned number = sb_unit_fault(unit);
    if (number != 0 && number != 4 && !sb_elsewhere(check, unit->name))
        sb_group_find(groups, check, number, SB_LEVEL_fatal, sb_unit_tensor(unit, SB_PART_COUNT),
                      group_key(unit, "shapes or dtypes", key, sizeof key), "%s", unit->problem);
}

/* V-7: "A tensor on its own must have exactly the shape that the configuration gives it" */
static void check_single(sb_check *check, sb_groups *groups, const sb_unit *unit)
{
    const sb_tensor *t = unit->tensor;
    const sb_expected *x = unit->expected;
    sb_shape_text found, expected;
    char key[KEY];
    if (t->rank == x->rank && memcmp(t->shape, x->shape, x->rank * sizeof *x->shape) == 0)
        return;
    sb_group_find(groups, check, 7, SB_LEVEL_fatal, t->name,
                  group_key(unit, "shape", key, sizeof key), "has shape %s, expected %s",
                  sb_show_shape(t->rank, t->shape, &found),
                  sb_show_shape(x->rank, x->shape, &expected));
}

/* V-7: "The codes of a layer must stand for the rows and columns" */
static void check_layer(sb_check *check, sb_groups *groups, const sb_unit *unit)
{
    const sb_found *f = &unit->found;
    const sb_expected *x = unit->expected;
    const uint64_t found[3] = {f->experts, f->matrix.rows, f->matrix.cols};
    unsigned rank = f->experts ? 3 : 2;
    const uint64_t conv[2] = {x->shape[0], x->shape[2]}; /* of [C, 1, kw], stored with that rank */
    const sb_tensor *codes = f->part[SB_PART_weight];
    const int convolution = x->role == SB_ROLE_conv1d && codes && codes->rank == x->rank;
    sb_shape_text a, b;
    char key[KEY];
    if (f->container == SB_CONTAINER_int_gptq || f->container == SB_CONTAINER_int_awq ||
        (rank == x->rank && memcmp(found + 3 - rank, x->shape, rank * sizeof *found) == 0) ||
        (convolution && rank == 2 && memcmp(found + 1, conv, sizeof conv) == 0))
        return;
    sb_group_find(groups, check, 7, SB_LEVEL_fatal, sb_unit_tensor(unit, SB_PART_COUNT),
                  group_key(unit, "shape", key, sizeof key), "is %s stored as %s, expected %s",
                  sb_show_shape(rank, found + 3 - rank, &a), sb_container_name(f->container),
                  sb_show_shape(x->rank, x->shape, &b));
}

/* V-7: "scales of four dimensions only where ModelOpt writes them, on FP8 blocks" */
static void check_scale_rank(sb_check *check, sb_groups *groups, const sb_unit *unit)
{
    const sb_tensor *scale = unit->found.part[SB_PART_weight_scale];
    char key[KEY];
    if (scale && scale->rank > 3 && unit->found.container != SB_CONTAINER_fp8_block_ct)
        sb_group_find(groups, check, 7, SB_LEVEL_fatal, scale->name,
                      group_key(unit, "rank of scales", key, sizeof key),
                      "has %u dimensions, expected at most 3: only scales of FP8 blocks have more",
                      scale->rank);
}

/* --- 8 ---------------------------------------------------------------------------------------- */

/* The declaration for a unit; its answer is unknown without a declaration, and for a unit that was
 * laid over. */
static sb_declaration declared_of(const sb_check *check, const sb_unit *unit)
{
    sb_declaration d = {.answer = SB_DECLARED_UNKNOWN};
    sb_error err;
    if (!check->self.declared || sb_found_origin(check->self.checkpoint, &unit->found) ||
        sb_declared_for(check->self.declared, unit->name, &d, &err))
        d = (sb_declaration){.answer = SB_DECLARED_UNKNOWN};
    return d;
}

/* V-8: "[K bits/32, N] is GPTQ's and [K, N bits/32] AWQ's" */
static void check_orientation(sb_check *check, sb_groups *groups, const sb_unit *unit)
{
    const sb_matrix *m = &unit->found.matrix;
    const sb_expected *x = unit->expected;
    const sb_tensor *t = unit->found.part[SB_PART_qweight];
    unsigned bits = sb_format_bits(m->format);
    sb_shape_text found;
    char key[KEY];
    if (x->rank == 2 && m->rows == x->shape[0] && m->cols == x->shape[1])
        return;
    sb_group_find(groups, check, 8, SB_LEVEL_fatal, t->name,
                  group_key(unit, "orientation", key, sizeof key),
                  "has shape %s, expected GPTQ's [%" PRIu64 ", %" PRIu64 "] or AWQ's [%" PRIu64
                  ", %" PRIu64 "]",
                  sb_show_shape(t->rank, t->shape, &found), x->shape[1] * bits / 32, x->shape[0],
                  x->shape[1], x->shape[0] * bits / 32);
}

/* V-8: "a power of two from 16 on, or all columns" */
static void check_groups(sb_check *check, sb_groups *groups, const sb_unit *unit)
{
    const sb_matrix *m = &unit->found.matrix;
    const sb_tensor *scales = unit->found.part[SB_PART_scales];
    uint32_t group = m->quant.block_cols;
    sb_declaration d = declared_of(check, unit);
    uint32_t want =
        d.strategy == SB_STRATEGY_CHANNEL || d.group_size > m->cols ? m->cols : d.group_size;
    char key[KEY];
    if ((group < 16 || (group & (group - 1)) != 0) && group != m->cols)
        sb_group_find(groups, check, 8, SB_LEVEL_fatal, scales->name,
                      group_key(unit, "groups", key, sizeof key),
                      "has %u groups of %u columns, expected a power of two of at least 16 "
                      "columns, or one group of all %u columns",
                      (unsigned)m->quant.groups, (unsigned)group, (unsigned)m->cols);
    else if (d.answer == SB_DECLARED_YES && d.family == SB_FAMILY_INT && want && group != want)
        sb_group_find(groups, check, 8, SB_LEVEL_fatal, scales->name,
                      group_key(unit, "declared groups", key, sizeof key),
                      "has groups of %u columns, but %u are declared (%s)", (unsigned)group,
                      (unsigned)want, d.rule);
}

/* --- 32 --------------------------------------------------------------------------------------- */

static uint64_t blocks(uint32_t n, uint32_t block)
{
    return ((uint64_t)n + block - 1) / block;
}

static int is_power(uint32_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

/* V-32: "a grid of ceil(N / bn) by ceil(K / bk) scales" */
static void check_grid(sb_check *check, sb_groups *groups, const sb_unit *unit)
{
    const sb_matrix *m = &unit->found.matrix;
    sb_declaration d = declared_of(check, unit);
    sb_model_part part = unit->found.part[SB_PART_weight_scale_inv] ? SB_PART_weight_scale_inv
                                                                    : SB_PART_weight_scale;
    uint64_t rows = blocks(m->rows, m->quant.block_rows), cols = m->quant.groups;
    int odd_rows = !is_power(m->quant.block_rows) && rows > 1,
        odd_cols = !is_power(m->quant.block_cols) && cols > 1;
    int declared = d.answer == SB_DECLARED_YES && d.strategy == SB_STRATEGY_BLOCK;
    uint32_t block_rows = declared ? d.block_rows : odd_rows ? 128 : m->quant.block_rows;
    uint32_t block_cols = declared ? d.block_cols : odd_cols ? 128 : m->quant.block_cols;
    char key[KEY];
    if (rows == blocks(m->rows, block_rows) && cols == blocks(m->cols, block_cols))
        return;
    sb_group_find(groups, check, 32, SB_LEVEL_fatal, sb_unit_tensor(unit, part),
                  group_key(unit, "grid of scales", key, sizeof key),
                  "has a grid of %" PRIu64 " x %" PRIu64
                  " scales for a matrix of %u x %u, expected %" PRIu64 " x %" PRIu64
                  ": one for each block of %u x %u, partial blocks included",
                  rows, cols, (unsigned)m->rows, (unsigned)m->cols, blocks(m->rows, block_rows),
                  blocks(m->cols, block_cols), (unsigned)block_rows, (unsigned)block_cols);
}

/* V-32: "in_proj_a, in_proj_b and shared_expert_gate in FP8 blocks" are an ERROR, unless the
 * configuration declares them so: then engines can know it. */
static void check_narrow(sb_check *check, sb_groups *groups, const sb_unit *unit)
{
    static const char *const narrow[] = {"linear_attn.in_proj_a", "linear_attn.in_proj_b",
                                         "linear_attn.in_proj_ba", "mlp.shared_expert_gate"};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) {
        const char *at = strstr(unit->kind, narrow[i]);
        char key[KEY];
        if (!at || strcmp(at, narrow[i]) != 0)
            continue;
        int declared = declared_of(check, unit).answer == SB_DECLARED_YES;
        sb_group_find(groups, check, 32, declared ? SB_LEVEL_warn : SB_LEVEL_error,
                      sb_unit_tensor(unit, SB_PART_COUNT),
                      group_key(unit, "FP8 of a narrow matrix", key, sizeof key),
                      "is stored as %s with %u rows, less than a block: %s; expected BF16",
                      sb_container_name(unit->found.container), (unsigned)unit->found.matrix.rows,
                      declared ? "engines that fuse b and a cannot join the grids of scales"
                               : "engines read it as BF16");
    }
}

static void check_unit(sb_check *check, sb_groups *groups, const sb_unit *unit)
{
    sb_container c = unit->found.container;
    if (unit->tensor) {
        if (unit->expected)
            check_single(check, groups, unit);
        return;
    }
    if (unit->status || c == SB_CONTAINER_COUNT) {
        tell_fault(check, groups, unit);
        return;
    }
    if (unit->expected)
        check_layer(check, groups, unit);
    check_scale_rank(check, groups, unit);
    if (c == SB_CONTAINER_int_gptq || c == SB_CONTAINER_int_awq) {
        if (unit->expected)
            check_orientation(check, groups, unit);
        check_groups(check, groups, unit);
    }
    if (sb_container_has_grid(c)) {
        check_grid(check, groups, unit);
        check_narrow(check, groups, unit);
    }
}

void sb_check_shapes(sb_check *check)
{
    const sb_units *u = &check->self.units;
    sb_groups groups = {0};
    for (size_t i = 0; i < u->count; i++)
        check_unit(check, &groups, &u->rows[i]);
    sb_groups_end(&groups, check);
}

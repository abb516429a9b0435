#include "tools/check/graft/adapt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "ref/formats/wide.h"
#include "ref/model/held.h"

enum { NAME = SB_MAX_TENSOR_NAME };

static sb_status no_memory(sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for the tensors of a graft");
}

static int taken_order(const void *left, const void *right)
{
    return strcmp(((const sb_overlaid *)left)->name, ((const sb_overlaid *)right)->name);
}

/* The declaration in the folder of a checkpoint; NULL if there is none. */
static sb_status declared_of(const sb_checkpoint *c, sb_declared **out, sb_error *err)
{
    char *path = sb_path_join(sb_checkpoint_folder(c), "config.json");
    sb_status status = path ? SB_OK : no_memory(err);
    *out = NULL;
    if (!status && access(path, F_OK) == 0)
        status = sb_declared_load(sb_checkpoint_folder(c), out, err);
    free(path);
    return status;
}

/* Allocates room for all taken tensors at once, so that pointers into it stay valid. */
static sb_status make_room(sb_grafted *g, sb_error *err)
{
    if (!g->made)
        g->made = sb_alloc(g->take.taken_count, sizeof *g->made);
    return g->made ? SB_OK : no_memory(err);
}

const sb_graft_made *sb_graft_made_of(const sb_grafted *g, const sb_tensor *tensor)
{
    for (size_t i = 0; i < g->made_count && !tensor->data; i++)
        if (&g->made[i].tensor == tensor)
            return &g->made[i];
    return NULL;
}

/* The new name of a part of the layer. */
static char *part_name(const char *taken, const char *old, const char *suffix)
{
    char name[NAME + 16];
    snprintf(name, sizeof name, "%.*s%s", (int)(strlen(taken) - strlen(old)), taken, suffix);
    return sb_strdup(name);
}

/* --- the scales of FP8 blocks ----------------------------------------------------------------- */

/* ModelOpt stores the grid as [N/128, 1, K/128, 1]. */
static void make_four(sb_tensor *scale)
{
    if (scale->rank != 2)
        return;
    scale->rank = 4;
    scale->shape[2] = scale->shape[1];
    scale->shape[1] = scale->shape[3] = 1;
}

/* W-16: "`weight_scale_inv` is called `weight_scale`, and not a byte of it changes". Other dialects
 * cannot declare such blocks. */
static sb_status rename_one(sb_grafted *g, sb_overlaid *taken, int four, sb_error *err)
{
    static const char old[] = "weight_scale_inv";
    size_t n = strlen(taken->name), tail = sizeof old - 1;
    char layer[NAME];
    sb_found found;
    if (n <= tail || strcmp(taken->name + n - tail, old) != 0 ||
        !sb_layer_of(taken->from->name, layer, sizeof layer))
        return SB_OK;
    sb_error why;
    sb_status status = sb_detect_headers(g->other, layer, 0, &found, &why);
    if (status || found.container != SB_CONTAINER_fp8_block)
        return SB_OK; /* a stack, or damaged: reported later */
    char *name = part_name(taken->name, old, "weight_scale");
    if (!name)
        return no_memory(err);
    free(taken->name);
    taken->name = name;
    sb_graft_made *made = &g->made[g->made_count++];
    *made = (sb_graft_made){.tensor = *taken->from, .found = found};
    if (four)
        make_four(&made->tensor);
    taken->from = &made->tensor;
    return SB_OK;
}

sb_status sb_graft_rename_scales(sb_grafted *g, sb_error *err)
{
    sb_declared *declared = NULL;
    sb_status status = declared_of(g->base, &declared, err);
    sb_dialect dialect = declared ? sb_declared_dialect(declared) : SB_DIALECT_COUNT;
    sb_declared_free(declared);
    if (status || (dialect != SB_DIALECT_ct && dialect != SB_DIALECT_modelopt))
        return status;
    status = make_room(g, err);
    for (size_t i = 0; i < g->take.taken_count && !status; i++)
        status = rename_one(g, &g->take.taken[i], dialect == SB_DIALECT_modelopt, err);
    if (!status && g->take.taken_count)
        qsort(g->take.taken, g->take.taken_count, sizeof *g->take.taken, taken_order);
    return status;
}

/* --- one number ------------------------------------------------------------------------------- */

/* Rounds a binary64 number to BF16. */
static uint16_t nearest(double x)
{
    float f = (float)x;
    uint32_t bits = sb_bits_f32(f);
    if ((double)f != x) { /* toward 0, with the last bit set */
        double big = x < 0 ? -x : x, got = f < 0 ? -(double)f : (double)f;
        bits = (got > big ? bits - 1 : bits) | 1;
    }
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* If the quotient has so few digits that it could be a tie or a BF16 number, it is checked by
 * multiplication, which is then exact: 29 by 24 bits. If the product is not x, the true quotient
 * lies just above or below. */
uint16_t sb_graft_bf16(double x, double divisor, int *exact)
{
    double q = x / divisor;
    uint64_t bits = sb_bits_f64(q);
    int short_one = (bits & ((UINT64_C(1) << 24) - 1)) == 0;
    int off = short_one && q * divisor != x;
    if (off) {
        double product = q * divisor, big = x < 0 ? -x : x, got = product < 0 ? -product : product;
        q = sb_f64_from_bits(got > big ? bits - 1 : bits + 1);
    }
    uint16_t out = nearest(q);
    *exact = !off && (double)sb_f32_from_bits((uint32_t)out << 16) == q;
    return out;
}

/* --- layers decoded --------------------------------------------------------------------------- */

/* Decodes the values of a row without their common divisor, which is returned. */
static double wide_row(const sb_matrix *m, uint32_t row, double *wide)
{
    const sb_factor *f = &m->quant.factor;
    sb_matrix_wide(m, row, wide);
    for (uint32_t k = 0; k < m->cols && f->kind == SB_MULTIPLIER; k++)
        wide[k] *= (double)f->value;
    return f->kind == SB_DIVISOR ? (double)f->value : 1;
}

void sb_graft_decoded(const sb_graft_made *made, uint64_t first, size_t count, double *wide,
                      uint64_t *row, unsigned char *bytes)
{
    const sb_matrix *m = &made->found.matrix;
    double divisor = m->quant.factor.kind == SB_DIVISOR ? (double)m->quant.factor.value : 1;
    for (size_t i = 0; i < count; i++) {
        uint64_t at = (first + i) / m->cols;
        int exact;
        if (at != *row)
            wide_row(m, (uint32_t)at, wide);
        *row = at;
        sb_store_u16(bytes + 2 * i, sb_graft_bf16(wide[(first + i) % m->cols], divisor, &exact));
    }
}

/* W-17: "the message gives the number of such values and the first, and nothing is written".
 * Examines every value before anything is written. */
static sb_status examine_values(sb_grafted *g, const sb_graft_made *made, const char *layer,
                                int round, sb_error *err)
{
    const sb_matrix *m = &made->found.matrix;
    double *wide = sb_alloc(m->cols, sizeof *wide), first = 0;
    uint64_t others = 0, broken = 0, at[2] = {0, 0};
    if (!wide)
        return no_memory(err);
    for (uint32_t row = 0; row < m->rows; row++) {
        double divisor = wide_row(m, row, wide);
        for (uint32_t k = 0; k < m->cols; k++) {
            int exact;
            uint16_t bits = sb_graft_bf16(wide[k], divisor, &exact);
            int finite = (bits & 0x7f80) != 0x7f80;
            if (exact && finite)
                continue;
            if (others == 0 || (!finite && broken == 0)) {
                first = wide[k] / divisor;
                at[0] = row;
                at[1] = k;
            }
            others++;
            broken += !finite;
        }
    }
    free(wide);
    g->rounded += others;
    g->decoded += (uint64_t)m->rows * m->cols;
    if (!broken && (!others || round))
        return SB_OK;
    return sb_fail(err, SB_ERR_UNSUPPORTED,
                   "%s: %" PRIu64 " of %" PRIu64
                   " values of %s are not %sBF16 numbers (first at [%" PRIu64 ", %" PRIu64
                   "]: %.9g)%s",
                   SB_SHOW(sb_checkpoint_path(g->other)), broken ? broken : others,
                   (uint64_t)m->rows * m->cols, SB_SHOW(layer), broken ? "finite " : "", at[0],
                   at[1], first, broken ? "" : "; --round rounds them to the nearest");
}

static int is_float(const sb_tensor *t)
{
    return t->dtype == SB_DTYPE_BF16 || t->dtype == SB_DTYPE_F16 || t->dtype == SB_DTYPE_F32;
}

/* Finds the layer of a taken tensor. found->container is plain if the layer is not quantized. */
static sb_status layer_of(sb_grafted *g, const sb_declared *declared, const sb_tensor *t,
                          char layer[NAME], sb_found *found, sb_error *err)
{
    size_t n = strlen(t->name);
    found->container = SB_CONTAINER_plain;
    if (!sb_layer_of(t->name, layer, NAME) ||
        (strcmp(t->name + n - 7, ".weight") == 0 && is_float(t)))
        return SB_OK;
    sb_error why;
    sb_status status = sb_detect(g->other, layer, 0, 0, 0, found, &why);
    if (status)
        return sb_fail(err, status, "%s; it cannot be decoded", why.text);
    if (found->container == SB_CONTAINER_COUNT)
        found->container = SB_CONTAINER_plain;
    return found->container == SB_CONTAINER_plain ? SB_OK
                                                  : sb_settle_zeros(declared, layer, found, err);
}

/* The tensor of codes, which represents the layer. */
static const sb_tensor *codes_of(const sb_found *f)
{
    static const sb_model_part parts[] = {SB_PART_weight, SB_PART_weight_packed, SB_PART_qweight};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (f->part[parts[i]])
            return f->part[parts[i]];
    return NULL;
}

/* The module of a tensor, to count its tensors. */
static sb_taken_module *module_of(const sb_take *take, const char *name)
{
    const char *plain = sb_plain_name(name);
    for (size_t i = 0; i < take->module_count; i++) {
        size_t n = strlen(take->modules[i].name);
        if (strncmp(plain, take->modules[i].name, n) == 0 && (!plain[n] || plain[n] == '.'))
            return &take->modules[i];
    }
    return NULL;
}

static sb_status decode_one(sb_grafted *g, const sb_declared *declared, sb_overlaid *taken,
                            int round, int *keep, sb_error *err)
{
    char layer[NAME];
    sb_found found;
    sb_status status = layer_of(g, declared, taken->from, layer, &found, err);
    if (status || found.container == SB_CONTAINER_plain)
        return status;
    sb_taken_module *module = module_of(&g->take, taken->from->name);
    uint64_t before = taken->from->bytes;
    *keep = codes_of(&found) == taken->from;
    if (*keep) {
        sb_graft_made *made = &g->made[g->made_count++];
        char *name = part_name(taken->name, taken->from->name + strlen(layer), ".weight");
        if (!name)
            return no_memory(err);
        free(taken->name);
        taken->name = name;
        *made = (sb_graft_made){.tensor = *taken->from, .decoded = 1, .found = found};
        made->tensor.data = NULL;
        made->tensor.dtype = SB_DTYPE_BF16;
        made->tensor.rank = 2;
        memset(made->tensor.shape, 0, sizeof made->tensor.shape);
        made->tensor.shape[0] = found.matrix.rows;
        made->tensor.shape[1] = found.matrix.cols;
        made->tensor.bytes = 2 * (uint64_t)found.matrix.rows * found.matrix.cols;
        taken->from = &made->tensor;
        status = examine_values(g, made, layer, round, err);
    }
    uint64_t now = *keep ? taken->from->bytes : 0;
    g->take.taken_bytes += now - before;
    if (module) {
        module->comes -= !*keep;
        module->comes_bytes += now - before;
    }
    return status;
}

sb_status sb_graft_decode(sb_grafted *g, int round, sb_error *err)
{
    sb_declared *declared = NULL;
    sb_take *take = &g->take;
    sb_status status = declared_of(g->other, &declared, err);
    if (!status)
        status = make_room(g, err);
    size_t kept = 0;
    for (size_t i = 0; i < take->taken_count; i++) {
        int keep = 1;
        if (!status)
            status = decode_one(g, declared, &take->taken[i], round, &keep, err);
        if (keep)
            take->taken[kept++] = take->taken[i];
        else
            free(take->taken[i].name);
    }
    take->taken_count = kept;
    sb_declared_free(declared);
    for (size_t i = 0; i < kept && !status; i++)
        if (!is_float(take->taken[i].from))
            status = sb_fail(
                err, SB_ERR_UNSUPPORTED,
                "%s: tensor %s has dtype %s, and is not a part of a layer that can be decoded",
                SB_SHOW(sb_checkpoint_path(g->other)), SB_SHOW(take->taken[i].from->name),
                sb_dtype_name(take->taken[i].from->dtype));
    if (!status && kept)
        qsort(take->taken, kept, sizeof *take->taken, taken_order);
    return status;
}

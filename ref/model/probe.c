#include "ref/model/probe.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "ref/model/declared_pattern.h"

/* Finds the layer's tensor with this suffix. The parts of a stack are named P.suffix, P_suffix, or
 * P_suffix without "weight_"; its codes are named P. */
static const sb_tensor *find_part(const sb_probe *p, unsigned part)
{
    const char *suffix = sb_part_suffix((sb_model_part)part);
    char full[SB_MAX_TENSOR_NAME + 64];
    if (strlen(p->name) > SB_MAX_TENSOR_NAME) /* no tensor has a longer name */
        return NULL;
    snprintf(full, sizeof full, "%s.%s", p->name, suffix);
    const sb_tensor *t = sb_checkpoint_find(p->checkpoint, full);
    if (t || !p->found->experts)
        return t;
    snprintf(full, sizeof full, "%s_%s", p->name, suffix);
    t = sb_checkpoint_find(p->checkpoint, full);
    if (t)
        return t;
    if (part == SB_PART_weight)
        return sb_checkpoint_find(p->checkpoint, p->name);
    /* P_g_idx belongs to GPTQ */
    if (strncmp(suffix, "weight_", 7) != 0 || part == SB_PART_weight_g_idx)
        return NULL;
    snprintf(full, sizeof full, "%s_%s", p->name, suffix + 7);
    return sb_checkpoint_find(p->checkpoint, full);
}

sb_status sb_probe_refuse(const sb_probe *p, sb_status status, const char *format, ...)
{
    char what[400];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return sb_fail(p->err, status, "%s: layer %s %s", SB_SHOW(sb_checkpoint_path(p->checkpoint)),
                   SB_SHOW(p->name), what);
}

/* True if the tensor is a depthwise convolution [C, 1, kw]. */
static int is_conv(const sb_probe *p, const sb_tensor *t)
{
    return t->rank == 3 && t->shape[1] == 1 && sb_has_suffix_part(p->name, "conv1d");
}

int sb_probe_plane(const sb_probe *p, const sb_tensor *t, uint64_t d[2])
{
    const uint64_t *shape = t->shape;
    unsigned rank = t->rank;
    d[0] = d[1] = 1;
    if (p->found->experts && rank > 0 && shape[0] == p->found->experts) {
        shape++;
        rank--;
    } else if (p->found->experts && (rank > 1 || (rank == 1 && shape[0] != 1)))
        return 0;
    if (rank == 4 && shape[1] == 1 && shape[3] == 1) {
        d[0] = shape[0];
        d[1] = shape[2];
        return 1;
    }
    if (is_conv(p, t)) {
        d[0] = t->shape[0];
        d[1] = t->shape[2];
        return 1;
    }
    for (unsigned i = 0; i < rank && i < 2; i++)
        d[i] = shape[i];
    return rank <= 2;
}

static void shape_text(const sb_tensor *t, char *text, size_t size)
{
    text[0] = '\0';
    for (unsigned d = 0; d < t->rank; d++)
        snprintf(text + strlen(text), size - strlen(text), "%s%" PRIu64, d ? ", " : "",
                 t->shape[d]);
}

static sb_status wrong_shape(const sb_probe *p, const sb_tensor *t, uint64_t d0, uint64_t d1)
{
    char found[160];
    shape_text(t, found, sizeof found);
    return sb_fail(p->err, SB_ERR_INPUT,
                   "%s: tensor %s has shape [%s], expected %s[%" PRIu64 ", %" PRIu64 "]",
                   SB_SHOW(sb_checkpoint_path(p->checkpoint)), SB_SHOW(t->name), found,
                   p->found->experts ? "per expert " : "", d0, d1);
}

sb_status sb_probe_want_shape(const sb_probe *p, const sb_tensor *t, uint64_t d0, uint64_t d1)
{
    uint64_t d[2];
    return sb_probe_plane(p, t, d) && d[0] == d0 && d[1] == d1 ? SB_OK : wrong_shape(p, t, d0, d1);
}

sb_status sb_probe_want_matrix(const sb_probe *p, const sb_tensor *t)
{
    uint32_t experts = p->found->experts;
    if ((t->rank == (experts ? 3 : 2) && (!experts || t->shape[0] == experts)) || is_conv(p, t))
        return SB_OK;
    char found[160];
    shape_text(t, found, sizeof found);
    if (!experts)
        return sb_fail(p->err, SB_ERR_INPUT, "%s: tensor %s has shape [%s], expected a matrix",
                       SB_SHOW(sb_checkpoint_path(p->checkpoint)), SB_SHOW(t->name), found);
    return sb_fail(p->err, SB_ERR_INPUT,
                   "%s: tensor %s has shape [%s], expected a matrix for each of %" PRIu32
                   " experts",
                   SB_SHOW(sb_checkpoint_path(p->checkpoint)), SB_SHOW(t->name), found, experts);
}

sb_status sb_probe_want(const sb_probe *p, sb_model_part part, sb_dtype dtype)
{
    const sb_tensor *t = p->found->part[part];
    if (!t)
        return sb_fail(p->err, SB_ERR_INPUT,
                       "%s: layer %s lacks tensor %s, which its other tensors require",
                       SB_SHOW(sb_checkpoint_path(p->checkpoint)), SB_SHOW(p->name),
                       sb_part_suffix((sb_model_part)part));
    if (t->dtype != dtype && dtype != SB_DTYPE_COUNT)
        return sb_fail(p->err, SB_ERR_INPUT, "%s: tensor %s has dtype %s, expected %s",
                       SB_SHOW(sb_checkpoint_path(p->checkpoint)), SB_SHOW(t->name),
                       sb_dtype_name(t->dtype), sb_dtype_name(dtype));
    return SB_OK;
}

int sb_plain_format(sb_dtype dtype, sb_format *format)
{
    for (unsigned f = 0; f < SB_FORMAT_COUNT; f++)
        if (sb_format_is_plain((sb_format)f) &&
            strcmp(sb_format_name((sb_format)f), sb_dtype_name(dtype)) == 0) {
            *format = (sb_format)f;
            return 1;
        }
    return 0;
}

sb_status sb_probe_scale_format(const sb_probe *p, const sb_tensor *t, sb_scale_kind kind,
                                sb_format *format)
{
    static const char *const expected[] = {"F32, BF16, F16, F8_E8M0 or U8", "F32, BF16 or F16",
                                           "F8_E4M3, or U8 or F8_E8M0"};
    if (kind != SB_SCALES_POWER && sb_plain_format(t->dtype, format))
        return SB_OK;
    if (kind != SB_SCALES_REAL && (t->dtype == SB_DTYPE_F8_E8M0 || t->dtype == SB_DTYPE_U8)) {
        *format = SB_FORMAT_e8m0;
        return SB_OK;
    }
    return sb_fail(p->err, SB_ERR_INPUT, "%s: tensor %s has dtype %s, expected scales of %s",
                   SB_SHOW(sb_checkpoint_path(p->checkpoint)), SB_SHOW(t->name),
                   sb_dtype_name(t->dtype), expected[kind]);
}

static uint64_t up(uint64_t n, uint64_t block)
{
    return (n + block - 1) / block;
}

/* The size of blocks if `count` blocks cover n: a power of two if one fits (128 and below first),
 * else n / count; 0 if neither fits. A partial block at the edge makes the size ambiguous;
 * published block sizes are powers of two. */
uint64_t sb_probe_block(uint64_t n, uint64_t count)
{
    if (count == 1)
        return n;
    for (uint64_t block = 128; block >= 1; block = block == 128 ? 64 : block / 2)
        if (up(n, block) == count)
            return block;
    for (uint64_t block = 256; block < n && block <= UINT32_MAX; block *= 2)
        if (up(n, block) == count)
            return block;
    return n % count == 0 ? n / count : 0;
}

sb_status sb_probe_scales(const sb_probe *p, const sb_tensor *t, sb_format format,
                          uint64_t block_rows, uint64_t block_cols)
{
    sb_matrix *m = &p->found->matrix;
    uint64_t across = up(p->cols, block_cols);
    sb_status status = sb_probe_want_shape(p, t, up(p->rows, block_rows), across);
    m->quant.scales = t->data;
    m->quant.scale_format = format;
    m->quant.block_rows = (uint32_t)block_rows;
    m->quant.block_cols = (uint32_t)block_cols;
    m->quant.scale_row = across;
    m->quant.scale_col = 1;
    m->quant.groups = (uint32_t)across;
    return status;
}

/* "finite and positive. The multiplier of a weight may also be 0" */
sb_status sb_probe_factor(const sb_probe *p, const sb_tensor *t, int kind, uint32_t e,
                          sb_factor *factor)
{
    const char *path = SB_SHOW(sb_checkpoint_path(p->checkpoint));
    sb_format format;
    if (!sb_plain_format(t->dtype, &format))
        return sb_fail(p->err, SB_ERR_INPUT,
                       "%s: tensor %s has dtype %s, expected F32, BF16 or F16", path,
                       SB_SHOW(t->name), sb_dtype_name(t->dtype));
    size_t size = sb_format_bytes(format);
    uint64_t count = t->bytes / size;
    if (count != 1 && (p->found->experts == 0 || count != p->found->experts))
        return wrong_shape(p, t, 1, 1);
    sb_decode(format, t->data + (count == 1 ? 0 : e * size), 1, &factor->value);
    factor->kind = kind == SB_DIVISOR ? SB_DIVISOR : SB_MULTIPLIER;
    if (!p->found->unjudged && (!sb_is_finite_f32(factor->value) || factor->value < 0 ||
                                (factor->value == 0 && kind == SB_DIVISOR)))
        return sb_fail(p->err, SB_ERR_INPUT,
                       "%s: tensor %s, element %" PRIu32 ", is %g; expected a finite %s", path,
                       SB_SHOW(t->name), count == 1 ? 0 : e, (double)factor->value,
                       kind == SB_DIVISOR ? "divisor above 0" : "multiplier, 0 or above");
    return SB_OK;
}

sb_status sb_read_factor(const sb_checkpoint *checkpoint, const sb_tensor *t, sb_factor *factor,
                         sb_error *err)
{
    sb_found none = {0};
    sb_probe probe = {checkpoint, "", &none, 0, 0, err};
    return sb_probe_factor(&probe, t, SB_MULTIPLIER, 0, factor);
}

void sb_probe_find(const sb_probe *p)
{
    for (unsigned part = 0; part < SB_PART_COUNT; part++)
        p->found->part[part] = find_part(p, part);
}

sb_status sb_probe_codes(sb_probe *p, const sb_tensor *t, sb_format format, uint64_t per_element)
{
    sb_matrix *m = &p->found->matrix;
    sb_status status = sb_probe_want_matrix(p, t);
    if (status)
        return status;
    if (!p->rows) {
        uint64_t d[2];
        sb_probe_plane(p, t, d);
        p->rows = d[0];
        p->cols = d[1] * per_element;
    }
    if (p->cols % per_element != 0)
        return sb_probe_refuse(p, SB_ERR_INPUT,
                               "has rows of %" PRIu64 " columns, expected a multiple of %" PRIu64,
                               p->cols, per_element);
    *m = (sb_matrix){
        .data = t->data, .format = format, .rows = (uint32_t)p->rows, .cols = (uint32_t)p->cols};
    m->quant.stored_rows = (uint32_t)p->rows;
    return sb_probe_want_shape(p, t, p->rows, p->cols / per_element);
}

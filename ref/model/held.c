#include "ref/model/held.h"

#include <stdio.h>

#include "ref/formats/format.h"

/* For each container the packings that a declaration may have, as bits. */
static const uint32_t packed[SB_CONTAINER_COUNT] = {
#define PACKED(packing) (1u << SB_PACKED_##packing)
#define SB_CONTAINER(id, name, family, scales, parts, packings, tensors) packings,
#include "ref/formats/containers.def"
#undef SB_CONTAINER
#undef PACKED
};

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Compares declared sizes of blocks, and group sizes of integers. The layer may be smaller than
 * one declared block. */
int sb_declared_blocks_agree(const sb_declaration *d, const sb_matrix *m)
{
    const sb_quant *q = &m->quant;
    if (d->family == SB_FAMILY_INT && d->strategy == SB_STRATEGY_GROUP)
        return q->block_cols == smaller(d->group_size, m->cols);
    if (d->strategy == SB_STRATEGY_BLOCK &&
        (d->family == SB_FAMILY_FP8 || sb_container_has_grid(q->container)))
        return q->block_rows == smaller(d->block_rows, m->rows) &&
               q->block_cols == smaller(d->block_cols, m->cols);
    return 1;
}

/* True if the widths of codes agree. int-quantized of compressed-tensors stores every code in a
 * byte, whatever its declared width is. */
static int bits_agree(const sb_declaration *d, const sb_found *f)
{
    unsigned stored = (unsigned)sb_format_bits(f->matrix.format);
    return d->bits == stored || (f->container == SB_CONTAINER_int8_channel &&
                                 d->packing == SB_PACKED_CT_INT && d->bits > 1 && d->bits < 8);
}

int sb_declared_kind_agrees(const sb_declaration *d, const sb_found *f)
{
    if (d->answer == SB_DECLARED_UNKNOWN)
        return 1;
    if (d->answer == SB_DECLARED_NO)
        return f->container == SB_CONTAINER_plain;
    return d->family == sb_container_family(f->container) &&
           (packed[f->container] >> d->packing & 1u) &&
           (d->family != SB_FAMILY_INT || bits_agree(d, f));
}

int sb_declaration_agrees(const sb_declaration *d, const sb_found *f)
{
    return sb_declared_kind_agrees(d, f) &&
           (d->answer != SB_DECLARED_YES || sb_declared_blocks_agree(d, &f->matrix));
}

/* "In all other cases the declaration decides" */
static void apply_declaration(const sb_declaration *d, sb_found *found)
{
    if (d->answer == SB_DECLARED_YES && d->bits < 8 && sb_declared_kind_agrees(d, found) &&
        found->container == SB_CONTAINER_int8_channel)
        found->matrix.quant.code_bits = (uint8_t)d->bits;
    if (found->zeros_open && d->packing == SB_PACKED_GPTQ_V2)
        found->matrix.quant.zeros = SB_ZEROS_gptq_v2;
}

sb_status sb_settle_zeros(const sb_declared *declared, const char *module, sb_found *found,
                          sb_error *err)
{
    sb_declaration d = {0};
    sb_status status = sb_declared_for(declared, module, &d, err);
    if (!status)
        apply_declaration(&d, found);
    return status;
}

/* "A layer whose tensors differ from its declaration is read as its tensors say, and counted
 * as a disagreement" */
sb_status sb_hold_against(sb_weights *weights, const sb_declared *declared, const char *module,
                          sb_found *found, sb_error *err)
{
    sb_declaration d = {0};
    sb_status status = sb_declared_for(declared, module, &d, err);
    if (status)
        return status;
    apply_declaration(&d, found);
    if (sb_declaration_agrees(&d, found))
        return SB_OK;
    if (weights->disagreements < SB_DISAGREEMENTS) {
        sb_declared_text text;
        snprintf(weights->disagreement[weights->disagreements], sizeof weights->disagreement[0],
                 "%s is stored as %s; declared: %s (%s)", module,
                 sb_container_name(found->container), sb_declaration_text(&d, &text), d.rule);
    }
    weights->disagreements++;
    return SB_OK;
}

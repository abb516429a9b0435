#include "tools/make/pieces.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "tools/make/bulk.h"
#include "tools/make/draw.h"
#include "tools/make/pieces_parts.h"

enum { ROWS = SB_PIECES_ROWS, ALONE = SB_PIECES_ALONE };

sb_status sb_pieces_new(const sb_maker *maker, const sb_make_plan *plan, uint64_t most,
                        sb_pieces *out, sb_error *err)
{
    const uint64_t usual = UINT64_C(1000000000);
    *out = (sb_pieces){.maker = maker, .plan = plan, .kept = SIZE_MAX, .most = most ? most : usual};
    out->largest = sb_alloc(plan->linear_count, sizeof *out->largest);
    if (!out->largest)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu layers", plan->linear_count);
    for (size_t i = 0; i < plan->linear_count; i++)
        out->largest[i] = -1.0f;
    out->held = sb_alloc(plan->linear_count, sizeof *out->held);
    if (!out->held)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu layers", plan->linear_count);
    return SB_OK;
}

void sb_pieces_free(sb_pieces *pieces)
{
    for (unsigned i = 0; i < 3; i++)
        free(pieces->kept_bytes[i]);
    for (size_t i = 0; pieces->held && i < pieces->plan->linear_count; i++)
        sb_pieces_let_go(pieces, i);
    free(pieces->held);
    free(pieces->largest);
    *pieces = (sb_pieces){0};
}

/* G-6: "the weights of `--format bf16` with the same options" */
void sb_pieces_draw(const sb_pieces *p, const sb_make_linear *l, uint64_t first, uint64_t rows,
                    float *out)
{
    sb_make_tensor t = {.rank = 2,
                        .shape = {l->rows, l->cols},
                        .role = l->role,
                        .layer = l->layer,
                        .expert = l->expert};
    size_t n = (size_t)(rows * l->cols);
    sb_make_draw(p->maker, &t, first * l->cols, n, out);
    sb_bulk_bf16(out, n);
}

static sb_status no_memory(const sb_make_linear *l, sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for rows of %s", l->module);
}

/* --- factors of whole tensors ----------------------------------------------------------------- */

void sb_pieces_keep_largest(_Atomic uint32_t *largest, float magnitude)
{
    const uint32_t bits = sb_bits_f32(magnitude);
    uint32_t so_far = atomic_load(largest);
    while (bits > so_far && !atomic_compare_exchange_weak(largest, &so_far, bits))
        ;
}

typedef struct finding {
    const sb_pieces *p;
    const sb_make_linear *l;
    float *rows; /* `room` of each thread */
    size_t room;
    _Atomic uint32_t largest;
} finding;

static void look_at_rows(void *ctx, size_t i, size_t worker)
{
    finding *f = ctx;
    const uint64_t r = (uint64_t)i * ROWS, n = f->l->rows - r < ROWS ? f->l->rows - r : ROWS;
    float *mine = f->rows + worker * f->room;
    sb_pieces_draw(f->p, f->l, r, n, mine);
    sb_pieces_keep_largest(&f->largest, sb_largest(mine, (size_t)(n * f->l->cols)));
}

static sb_status find_largest(sb_pieces *p, size_t linear, sb_error *err)
{
    const sb_make_linear *l = &p->plan->linears[linear];
    finding f = {.p = p, .l = l, .room = ROWS * (size_t)l->cols};
    f.rows = sb_alloc(sb_threads() * f.room, sizeof *f.rows);
    if (!f.rows)
        return no_memory(l, err);
    sb_parallel_in_order((size_t)((l->rows + ROWS - 1) / ROWS), l->rows * l->cols > ALONE,
                         look_at_rows, &f);
    free(f.rows);
    p->largest[linear] = sb_f32_from_bits(atomic_load(&f.largest));
    return SB_OK;
}

/* The common factor of a layer and the layers fused with it. */
static sb_status factor_of(sb_pieces *p, size_t linear, float *factor, sb_error *err)
{
    const sb_make_plan *plan = p->plan;
    const sb_scheme_info *info = sb_scheme_at(plan->linears[linear].scheme);
    size_t first = plan->linears[linear].fused;
    float largest = 0.0f;
    *factor = 0.0f;
    for (size_t i = first; info->factor && i < plan->linear_count; i++) {
        if (plan->linears[i].fused != first)
            break;
        sb_status status = p->largest[i] < 0.0f ? find_largest(p, i, err) : SB_OK;
        if (status)
            return status;
        largest = p->largest[i] > largest ? p->largest[i] : largest;
    }
    if (info->factor)
        *factor = info->factor(largest, plan->rule);
    return SB_OK;
}

/* --- codes, scales and zero points ------------------------------------------------------------ */

static unsigned place_of(sb_content content)
{
    return content == SB_CONTENT_codes ? 0 : content == SB_CONTENT_scales ? 1 : 2;
}

sb_status sb_pieces_measure(const sb_pieces *p, size_t linear, sb_bands *b, sb_error *err)
{
    const sb_make_linear *l = &p->plan->linears[linear];
    const sb_scheme_info *info = sb_scheme_at(l->scheme);
    sb_scheme_tensor part;
    *b = (sb_bands){.linear = l, .rows = info->band ? info->band : l->rows};
    if (info->band == 1)
        b->rows = ROWS;
    b->prototype = (sb_band){.cols = l->cols, .group = l->group, .rule = p->plan->rule};
    for (size_t i = 0; sb_scheme_tensor_at(l->scheme, i, l->rows, l->cols, l->group, &part); i++) {
        if (part.content > SB_CONTENT_zeros)
            continue;
        uint64_t bytes = 0;
        sb_status status = sb_dtype_bytes(part.dtype, part.rank, part.shape, &bytes, err);
        if (status)
            return status;
        uint64_t share = info->band == 0            ? 1
                         : part.shape[0] == l->rows ? b->rows
                                                    : 1; /* a row of block scales */
        b->bytes[place_of(part.content)] =
            (size_t)(info->band == 0 ? bytes : bytes / part.shape[0] * share);
        b->all[place_of(part.content)] = (size_t)bytes;
    }
    return SB_OK;
}

static size_t scratch_bytes(const sb_bands *b)
{
    return (size_t)(b->rows * b->linear->cols) * sizeof(float) + b->bytes[0] + b->bytes[1] +
           b->bytes[2];
}

/* Computes a band in scratch; results[] receive the addresses of its three results. */
static void compute(const sb_pieces *p, const sb_bands *b, uint64_t band, void *scratch,
                    unsigned char *results[3])
{
    const sb_make_linear *l = b->linear;
    sb_band work = b->prototype;
    uint64_t first = band * b->rows;
    float *weights = scratch;
    unsigned char *at = (unsigned char *)(weights + b->rows * l->cols);
    work.rows = l->rows - first < b->rows ? l->rows - first : b->rows;
    work.weights = weights;
    for (unsigned i = 0; i < 3; i++) {
        results[i] = at;
        at += b->bytes[i];
    }
    work.codes = results[0];
    work.scales = results[1];
    work.zeros = results[2];
    sb_pieces_draw(p, l, first, work.rows, weights);
    sb_scheme_at(l->scheme)->quantize(&work);
}

/* Copies the part of a band that lies in a piece of the tensor. */
static void copy_band(const unsigned char *from, uint64_t band_first, size_t band_bytes,
                      uint64_t first, unsigned char *bytes, size_t count)
{
    uint64_t start = band_first > first ? band_first : first;
    uint64_t end =
        band_first + band_bytes < first + count ? band_first + band_bytes : first + count;
    if (start < end)
        memcpy(bytes + (start - first), from + (start - band_first), (size_t)(end - start));
}

typedef struct filling {
    const sb_pieces *p;
    const sb_bands *b;
    uint64_t begin, first; /* band; byte */
    unsigned char *bytes;
    size_t count, room;
    float *scratch; /* `room` of each thread */
} filling;

static void fill_band(void *ctx, size_t i, size_t worker)
{
    const filling *f = ctx;
    const size_t size = f->b->bytes[f->b->wanted];
    const uint64_t band = f->begin + i;
    unsigned char *results[3];
    compute(f->p, f->b, band, f->scratch + worker * f->room, results);
    copy_band(results[f->b->wanted], band * size, size, f->first, f->bytes, f->count);
}

static sb_status fill_bands(const sb_pieces *p, const sb_bands *b, uint64_t first,
                            unsigned char *bytes, size_t count, sb_error *err)
{
    size_t size = b->bytes[b->wanted];
    uint64_t begin = first / size, end = (first + count + size - 1) / size;
    filling f = {p, b, begin, first, bytes, count, 0, NULL};
    f.room = (scratch_bytes(b) + sizeof(float) - 1) / sizeof(float);
    f.scratch = sb_alloc(sb_threads() * f.room, sizeof *f.scratch);
    if (!f.scratch)
        return no_memory(b->linear, err);
    sb_parallel_in_order((size_t)(end - begin), (end - begin) * b->rows * b->linear->cols > ALONE,
                         fill_band, &f);
    free(f.scratch);
    return SB_OK;
}

/* Keeps the result of a layer with one band, because its tensors are requested in several
 * consecutive pieces. */
static sb_status fill_whole(sb_pieces *p, const sb_bands *b, size_t linear, uint64_t first,
                            unsigned char *bytes, size_t count, sb_error *err)
{
    if (p->kept != linear) {
        unsigned char *results[3];
        float *scratch = sb_alloc(scratch_bytes(b) / sizeof(float) + 1, sizeof *scratch);
        int failed = !scratch;
        p->kept = SIZE_MAX;
        for (unsigned i = 0; i < 3; i++) {
            free(p->kept_bytes[i]);
            p->kept_bytes[i] = sb_alloc(b->bytes[i], 1);
            failed |= !p->kept_bytes[i];
        }
        if (failed) {
            free(scratch);
            return no_memory(b->linear, err);
        }
        compute(p, b, 0, scratch, results);
        for (unsigned i = 0; i < 3; i++)
            memcpy(p->kept_bytes[i], results[i], b->bytes[i]);
        free(scratch);
        p->kept = linear;
    }
    memcpy(bytes, p->kept_bytes[b->wanted] + first, count);
    return SB_OK;
}

/* --- single numbers --------------------------------------------------------------------------- */

/* The first of the projections that read the same input. */
static sb_role input_of(sb_role role)
{
    switch (role) {
    case SB_ROLE_k_proj:
    case SB_ROLE_v_proj:
        return SB_ROLE_q_proj;
    case SB_ROLE_in_proj_z:
    case SB_ROLE_in_proj_b:
    case SB_ROLE_in_proj_a:
        return SB_ROLE_in_proj_qkv;
    case SB_ROLE_in_proj_ba:
        return SB_ROLE_in_proj_qkvz;
    case SB_ROLE_expert_up:
        return SB_ROLE_expert_gate;
    case SB_ROLE_shared_up_proj:
        return SB_ROLE_shared_gate_proj;
    case SB_ROLE_up_proj:
        return SB_ROLE_gate_proj;
    default:
        return role;
    }
}

static float drawn_amax(const sb_maker *maker, const char *kind, sb_role role, uint32_t layer)
{
    char path[SB_NAME_MAX];
    snprintf(path, sizeof path, "make/%s/layers.%u.%s", kind, (unsigned)layer, sb_role_name(role));
    float u = sb_rng_uniform(sb_rng_key(maker->seed, path), 0);
    return sb_round_to(SB_FORMAT_bf16, 4.0f + 60.0f * u * u);
}

/* G-6: "bf16(4 + 60 u^2); layers that read the same input share one u of the generator" */
float sb_make_input_amax(const sb_maker *maker, sb_role role, uint32_t layer)
{
    return drawn_amax(maker, "input", input_of(role), layer);
}

/* The scale of a layer's input follows the formula of its weight's factor with the usual rule. */
static float input_scale(const sb_pieces *p, const sb_make_linear *l)
{
    return sb_scheme_at(l->scheme)->factor(sb_make_input_amax(p->maker, l->role, l->layer),
                                           SB_SCALE_RULE_amax);
}

/* Element i of a small content, at most 8 bytes. */
static void small_element(const sb_pieces *p, const sb_make_tensor *t, float factor, uint64_t i,
                          unsigned char *out)
{
    const sb_make_linear *l = &p->plan->linears[t->linear];
    switch (t->content) {
    case SB_CONTENT_factor:
        sb_store_u32(out, sb_bits_f32(factor));
        return;
    case SB_CONTENT_input:
        sb_store_u32(out, sb_bits_f32(input_scale(p, l)));
        return;
    case SB_CONTENT_shape:
        sb_store_u64(out, i == 0 ? l->rows : l->cols);
        return;
    case SB_CONTENT_index:
        sb_store_u32(out, (uint32_t)(i / l->group));
        return;
    default:
        sb_store_u32(out, sb_bits_f32(drawn_amax(p->maker, "kv", t->role, t->layer) / 448.0f));
    }
}

static void fill_small(const sb_pieces *p, const sb_make_tensor *t, float factor, uint64_t first,
                       unsigned char *bytes, size_t count)
{
    size_t size = sb_dtype_bits(t->dtype) / 8;
    for (size_t at = 0; at < count; at += size)
        small_element(p, t, factor, (first + at) / size, bytes + at);
}

sb_status sb_pieces_fill(sb_pieces *p, const sb_make_tensor *t, uint64_t first,
                         unsigned char *bytes, size_t count, sb_error *err)
{
    sb_bands b;
    float factor = 0.0f;
    sb_status status = t->content <= SB_CONTENT_factor ? sb_pieces_hold(p, t->linear, err) : SB_OK;
    if (status)
        return status;
    if (t->content > SB_CONTENT_zeros) {
        if (t->content == SB_CONTENT_factor)
            status = factor_of(p, t->linear, &factor, err);
        if (!status)
            fill_small(p, t, factor, first, bytes, count);
        return status;
    }
    if (sb_pieces_held(p, t->linear, place_of(t->content), first, bytes, count))
        return SB_OK;
    status = sb_pieces_measure(p, t->linear, &b, err);
    b.wanted = place_of(t->content);
    if (!status)
        status = factor_of(p, t->linear, &b.prototype.factor, err);
    if (status)
        return status;
    if (sb_scheme_at(b.linear->scheme)->band == 0)
        return fill_whole(p, &b, t->linear, first, bytes, count, err);
    return fill_bands(p, &b, first, bytes, count, err);
}

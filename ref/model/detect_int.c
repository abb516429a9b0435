/* The integer containers: GPTQ, AWQ, compressed-tensors' packed integers, ModelOpt's INT4. */
#include <inttypes.h>

#include "ref/base/bytes.h"
#include "ref/container/show.h"
#include "ref/model/probe.h"

/* True if only headers are looked at, or only they are here. */
static int is_unread(const sb_probe *p, const sb_tensor *t)
{
    return p->found->headers_only || sb_checkpoint_in_stub(p->checkpoint, t);
}

static sb_status refuse_stack(const sb_probe *p, const char *what)
{
    return sb_probe_refuse(p, SB_ERR_UNSUPPORTED,
                           "is a stack of experts stored as %s, expected a layer for each expert",
                           what);
}

static sb_status refuse_groups(const sb_probe *p, uint64_t groups)
{
    return sb_probe_refuse(p, SB_ERR_INPUT,
                           "has scales for %" PRIu64 " groups, expected a number that divides its "
                           "%" PRIu64 " columns",
                           groups, p->cols);
}

/* "every word of qzeros is 0x77777777 or 0x7f7f7f7f" - this distinguishes v1 from v2. Sets
 * zeros_open if the words show neither. */
static void read_gptq_zeros(const sb_probe *p, const sb_tensor *t, uint32_t bits)
{
    sb_found *found = p->found;
    uint32_t v1 = bits == 4 ? 0x77777777u : 0x7f7f7f7fu;
    uint32_t v2 = bits == 4 ? 0x88888888u : 0x80808080u;
    uint64_t words = t->bytes / 4, first = 0, second = 0;
    found->matrix.quant.zeros = SB_ZEROS_gptq_v1;
    if (is_unread(p, t))
        return;
    for (uint64_t i = 0; i < words; i++) {
        uint32_t word = sb_load_u32(t->data + 4 * i);
        first += word == v1;
        second += word == v2;
    }
    found->matrix.quant.zeros = second == words ? SB_ZEROS_gptq_v2 : SB_ZEROS_gptq_v1;
    found->zeros_open = first != words && second != words;
}

/* Reads the group index of the columns; every entry must be in range. An index that is -1
 * everywhere, or equal to the natural groups k / group_size, counts as no index. */
static sb_status take_group_index(sb_probe *p, sb_model_part part)
{
    const sb_tensor *t = p->found->part[part];
    sb_quant *q = &p->found->matrix.quant;
    sb_status status = sb_probe_want(p, part, SB_DTYPE_I32);
    if (!status)
        status = sb_probe_want_shape(p, t, p->cols, 1);
    if (status || is_unread(p, t))
        return status;
    uint64_t unset = 0, usual = 0, count = t->bytes / 4;
    for (uint64_t k = 0; k < count; k++) {
        unset += sb_load_u32(t->data + 4 * k) == 0xffffffffu;
        usual += sb_load_u32(t->data + 4 * k) == k % p->cols / q->block_cols;
    }
    for (uint64_t k = 0; k < count && unset != count; k++)
        if (sb_load_u32(t->data + 4 * k) >= q->groups)
            return sb_fail(p->err, SB_ERR_INPUT,
                           "%s: tensor %s, element %" PRIu64 ", is group 0x%" PRIx32
                           ", expected 0 to %" PRIu32,
                           SB_SHOW(sb_checkpoint_path(p->checkpoint)), SB_SHOW(t->name), k,
                           sb_load_u32(t->data + 4 * k), q->groups - 1);
    q->group_index = unset == count || usual == count ? NULL : t->data;
    return SB_OK;
}

/* Checks the three tensors of GPTQ and AWQ, which must be matrices. */
static sb_status find_gptq_parts(const sb_probe *p, sb_format *format)
{
    static const sb_model_part parts[] = {SB_PART_qweight, SB_PART_qzeros, SB_PART_scales};
    sb_status status = p->found->experts ? refuse_stack(p, "GPTQ or AWQ") : SB_OK;
    for (unsigned i = 0; i < 3 && !status; i++) {
        status = sb_probe_want(p, parts[i], i < 2 ? SB_DTYPE_I32 : SB_DTYPE_COUNT);
        if (!status)
            status = sb_probe_want_matrix(p, p->found->part[parts[i]]);
    }
    return status ? status
                  : sb_probe_scale_format(p, SB_FOUND_PART(p, scales), SB_SCALES_REAL, format);
}

/* Sets up GPTQ and AWQ. Both have [G, N] scales and [G, N bits/32] zero points; the shape of
 * qweight distinguishes them. */
sb_status sb_take_gptq_awq(sb_probe *p)
{
    const sb_tensor *codes = SB_FOUND_PART(p, qweight), *zeros = SB_FOUND_PART(p, qzeros),
                    *scales = SB_FOUND_PART(p, scales);
    sb_found *found = p->found;
    sb_quant *q = &found->matrix.quant;
    sb_format format = SB_FORMAT_f16;
    sb_status status = find_gptq_parts(p, &format);
    if (status)
        return status;
    uint64_t n = scales->shape[1], groups = scales->shape[0];
    uint64_t bits = 32 * zeros->shape[1] / n, words = n * bits / 32;
    if ((bits != 4 && bits != 8) || words * 32 != n * bits)
        return sb_probe_refuse(p, SB_ERR_UNSUPPORTED,
                               "has %" PRIu64 " words of zero points for %" PRIu64
                               " rows, expected codes of 4 or 8 bits",
                               zeros->shape[1], n);
    int gptq = codes->shape[1] == n;
    uint64_t k = gptq ? codes->shape[0] * (32 / bits) : codes->shape[0];
    if (!p->rows) {
        p->rows = n;
        p->cols = k;
    }
    found->container = gptq ? SB_CONTAINER_int_gptq : SB_CONTAINER_int_awq;
    found->matrix = (sb_matrix){.data = codes->data,
                                .format = bits == 4 ? SB_FORMAT_uint4 : SB_FORMAT_uint8,
                                .rows = (uint32_t)p->rows,
                                .cols = (uint32_t)p->cols};
    if (!gptq && bits != 4)
        return sb_probe_refuse(p, SB_ERR_UNSUPPORTED,
                               "has AWQ codes of %" PRIu64 " bits, expected 4", bits);
    status = gptq ? sb_probe_want_shape(p, codes, p->cols * bits / 32, p->rows)
                  : sb_probe_want_shape(p, codes, p->cols, p->rows * bits / 32);
    if (!status)
        status = sb_probe_want_shape(p, scales, groups, p->rows);
    if (!status)
        status = sb_probe_want_shape(p, zeros, groups, words);
    if (!status && p->cols % (32 / bits) != 0)
        status = sb_probe_refuse(p, SB_ERR_INPUT,
                                 "has %" PRIu64 " columns, expected a multiple of %" PRIu64,
                                 p->cols, 32 / bits);
    if (!status && p->cols % groups != 0)
        status = refuse_groups(p, groups);
    if (status)
        return status;
    *q = (sb_quant){.scales = scales->data,
                    .scale_format = format,
                    .block_rows = 1,
                    .block_cols = (uint32_t)(p->cols / groups),
                    .scale_row = 1,
                    .scale_col = n,
                    .groups = (uint32_t)groups,
                    .stored_rows = (uint32_t)n,
                    .zero_points = zeros->data,
                    .packing = gptq ? SB_PACKING_gptq : SB_PACKING_awq,
                    .zeros = SB_ZEROS_awq};
    if (gptq)
        read_gptq_zeros(p, zeros, (uint32_t)bits);
    return SB_FOUND_PART(p, g_idx) ? take_group_index(p, SB_PART_g_idx) : SB_OK;
}

/* Reads the rows and columns of weight_shape, which must equal the expected ones. */
static sb_status read_weight_shape(sb_probe *p, uint64_t *n, uint64_t *k)
{
    const sb_tensor *t = SB_FOUND_PART(p, weight_shape);
    sb_status status = sb_probe_want(p, SB_PART_weight_shape, SB_DTYPE_I64);
    if (status)
        return status;
    if (t->bytes != 16 || t->rank != 1)
        return sb_fail(p->err, SB_ERR_INPUT,
                       "%s: tensor %s has %" PRIu64 " elements in %u dimensions, expected 2 in one",
                       SB_SHOW(sb_checkpoint_path(p->checkpoint)), SB_SHOW(t->name), t->bytes / 8,
                       t->rank);
    *n = sb_load_u64(t->data);
    *k = sb_load_u64(t->data + 8);
    if (*n - 1 >= UINT32_MAX || *k - 1 >= UINT32_MAX)
        return sb_fail(p->err, SB_ERR_INPUT,
                       "%s: tensor %s says [%" PRIu64 ", %" PRIu64 "], expected 1 to 2^32 - 1 each",
                       SB_SHOW(sb_checkpoint_path(p->checkpoint)), SB_SHOW(t->name), *n, *k);
    if (!p->rows) {
        p->rows = *n;
        p->cols = *k;
    }
    if (*n == p->rows && *k == p->cols)
        return SB_OK;
    return sb_fail(
        p->err, SB_ERR_INPUT,
        "%s: tensor %s says [%" PRIu64 ", %" PRIu64 "], expected [%" PRIu64 ", %" PRIu64 "]",
        SB_SHOW(sb_checkpoint_path(p->checkpoint)), SB_SHOW(t->name), *n, *k, p->rows, p->cols);
}

/* Sets up pack-quantized of compressed-tensors: a row is one string of bits in 32-bit words. */
sb_status sb_take_int_ct(sb_probe *p)
{
    const sb_tensor *codes = SB_FOUND_PART(p, weight_packed),
                    *scale = SB_FOUND_PART(p, weight_scale);
    const sb_tensor *zeros = SB_FOUND_PART(p, weight_zero_point);
    sb_quant *q = &p->found->matrix.quant;
    uint64_t n = 0, k = 0, grid[2] = {0, 0};
    sb_format format = SB_FORMAT_bf16;
    sb_status status = sb_probe_want(p, SB_PART_weight_scale, SB_DTYPE_COUNT);
    if (!status)
        status = sb_probe_scale_format(p, scale, SB_SCALES_REAL, &format);
    if (!status)
        status = sb_probe_want_matrix(p, codes);
    if (!status)
        status = read_weight_shape(p, &n, &k);
    if (status)
        return status;
    uint64_t words = codes->shape[codes->rank - 1], bits = 32 * words / k;
    if (bits > 1 && bits < 8 && bits != 4 && k * bits == 32 * words)
        return sb_probe_refuse(p, SB_ERR_UNSUPPORTED,
                               "has codes of %" PRIu64 " bits (W%" PRIu64
                               "A16), which lie across words: only those of 4 and 8 bits are read",
                               bits, bits);
    if ((bits != 4 && bits != 8) || k * bits % 32 != 0)
        return sb_probe_refuse(p, SB_ERR_UNSUPPORTED,
                               "has %" PRIu64 " columns in %" PRIu64
                               " words, expected whole words of codes of 4 or 8 bits",
                               k, words);
    status = sb_probe_codes(p, codes, bits == 4 ? SB_FORMAT_uint4 : SB_FORMAT_uint8, 32 / bits);
    if (!status && !sb_probe_plane(p, scale, grid))
        status = sb_probe_want_shape(p, scale, n, 1);
    if (!status && k % grid[1] != 0)
        status = refuse_groups(p, grid[1]);
    if (!status)
        status = sb_probe_scales(p, scale, format, grid[0] == 1 ? n : 1, k / grid[1]);
    if (status)
        return status;
    q->zero = bits == 4 ? 8 : 128;
    if (zeros) {
        status = sb_probe_want(p, SB_PART_weight_zero_point, SB_DTYPE_I32);
        if (!status)
            status = sb_probe_want_shape(p, zeros, (n * bits + 31) / 32, grid[1]);
        q->zeros = SB_ZEROS_rows;
        q->zero_points = zeros->data;
    }
    return status || !SB_FOUND_PART(p, weight_g_idx) ? status
                                                     : take_group_index(p, SB_PART_weight_g_idx);
}

/* Sets up ModelOpt's INT4: two rows per byte, codes in two's complement. */
sb_status sb_take_int4_modelopt(sb_probe *p)
{
    const sb_tensor *codes = SB_FOUND_PART(p, weight), *scale = SB_FOUND_PART(p, weight_scale);
    sb_matrix *m = &p->found->matrix;
    uint64_t grid[2] = {0, 0};
    sb_format format = SB_FORMAT_f32;
    if (p->found->experts)
        return refuse_stack(p, "int4-modelopt");
    sb_status status = sb_probe_scale_format(p, scale, SB_SCALES_REAL, &format);
    if (!status)
        status = sb_probe_want_matrix(p, codes);
    if (!status && !sb_probe_plane(p, scale, grid))
        status = sb_probe_want_shape(p, scale, 2 * codes->shape[0], 1);
    if (status)
        return status;
    if (!p->rows) {
        p->rows = 2 * codes->shape[0];
        p->cols = codes->shape[1];
    }
    if (p->rows % 2 != 0)
        return sb_probe_refuse(
            p, SB_ERR_INPUT, "has %" PRIu64 " rows, expected an even number: two rows share bytes",
            p->rows);
    if (p->cols % grid[1] != 0)
        return refuse_groups(p, grid[1]);
    *m = (sb_matrix){.data = codes->data,
                     .format = SB_FORMAT_int4,
                     .rows = (uint32_t)p->rows,
                     .cols = (uint32_t)p->cols};
    m->quant.packing = SB_PACKING_pairs;
    m->quant.stored_rows = (uint32_t)p->rows;
    status = sb_probe_want_shape(p, codes, p->rows / 2, p->cols);
    return status ? status : sb_probe_scales(p, scale, format, 1, p->cols / grid[1]);
}

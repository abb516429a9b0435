#include "ref/model/detect.h"

#include <inttypes.h>
#include <string.h>

#include "ref/container/show.h"
#include "ref/model/config.h"
#include "ref/model/origin.h"
#include "ref/model/probe.h"

static const char *const suffixes[] = {
#define SB_PART(suffix) #suffix,
#include "ref/model/parts.def"
#undef SB_PART
};

const char *sb_part_suffix(sb_model_part part)
{
    return suffixes[part];
}

int sb_layer_of(const char *tensor, char *layer, size_t size)
{
    size_t length = strlen(tensor);
    for (unsigned p = 0; p < SB_PART_COUNT; p++) {
        size_t tail = strlen(suffixes[p]);
        if (length <= tail + 1 || length - tail - 1 >= size || tensor[length - tail - 1] != '.' ||
            strcmp(tensor + length - tail, suffixes[p]) != 0)
            continue;
        memcpy(layer, tensor, length - tail - 1);
        layer[length - tail - 1] = '\0';
        return 1;
    }
    return 0;
}

/* Reads a factor of expert e, and its origin: the number that a conversion replaced by this factor
 * (D-7). */
static sb_status read_one(const sb_probe *p, const sb_tensor *t, int kind, uint32_t e,
                          sb_factor *factor, float *origin)
{
    sb_status status = sb_probe_factor(p, t, kind, e, factor);
    if (status || p->found->unjudged)
        return status;
    uint64_t count = 8 * t->bytes / sb_dtype_bits(t->dtype);
    return sb_origin_of(p->checkpoint, t, count, count == 1 ? 0 : e, factor->value, origin, p->err);
}

/* Reads the input scale, which any container may have. Conversions replace only scalars of FP4
 * layers. Their origin is read only to check it. Q-4: "The multiplier of a weight may also be 0" -
 * this is not allowed for inputs, because a multiplier of 0 would make every output 0. */
static sb_status read_input(const sb_probe *p, uint32_t e, sb_quant *q)
{
    const sb_tensor *divisor = SB_FOUND_PART(p, input_global_scale);
    const sb_tensor *multiplier = SB_FOUND_PART(p, input_scale);
    float origin;
    if (divisor)
        return read_one(p, divisor, SB_DIVISOR, e, &q->input, &origin);
    if (!multiplier)
        return SB_OK;
    sb_status status = read_one(p, multiplier, SB_MULTIPLIER, e, &q->input, &origin);
    if (!status && q->input.value == 0 && !p->found->unjudged)
        return sb_fail(p->err, SB_ERR_INPUT,
                       "%s: tensor %s, element %" PRIu32 ", is 0; expected a scale above 0",
                       SB_SHOW(sb_checkpoint_path(p->checkpoint)), SB_SHOW(multiplier->name),
                       multiplier->rank ? e : 0);
    return status;
}

/* Reads the factor of the weight, which FP4 containers have. */
static sb_status read_factor(const sb_probe *p, uint32_t e, sb_quant *q)
{
    const sb_tensor *divisor = SB_FOUND_PART(p, weight_global_scale);
    const sb_tensor *multiplier = SB_FOUND_PART(p, weight_scale_2);
    if (divisor)
        return read_one(p, divisor, SB_DIVISOR, e, &q->factor, &q->origin);
    if (multiplier)
        return read_one(p, multiplier, SB_MULTIPLIER, e, &q->factor, &q->origin);
    return SB_OK;
}

/* Sets up NVFP4 and MXFP4: nibbles, and a scale per 16 or 32 columns. */
static sb_status take_fp4(sb_probe *p, sb_model_part codes, sb_model_part factor)
{
    const sb_tensor *scale = SB_FOUND_PART(p, weight_scale);
    int mx = p->found->container == SB_CONTAINER_mxfp4;
    sb_status status = sb_probe_codes(p, p->found->part[codes], SB_FORMAT_e2m1, 2);
    if (!status && factor != SB_PART_COUNT)
        status = sb_probe_want(p, factor, SB_DTYPE_COUNT);
    /* checked before the shapes, because the message about shapes would be misleading */
    if (!status && !mx && sb_dtype_bits(scale->dtype) == 8 && p->cols % 32 == 0 &&
        scale->rank == 2 && scale->shape[1] * 32 == p->cols)
        return sb_probe_refuse(p, SB_ERR_INPUT,
                               "has a block scale for each 32 columns, expected one for each 16: "
                               "half of them are missing, or it is ModelOpt's W4A8_NVFP4_FP8, "
                               "which is not read");
    if (!status && p->cols % (mx ? 32 : 16) != 0)
        return sb_probe_refuse(p, SB_ERR_INPUT,
                               "has rows of %" PRIu64 " columns, expected a multiple of %d",
                               p->cols, mx ? 32 : 16);
    if (!status)
        status = sb_probe_scales(p, scale, mx ? SB_FORMAT_e8m0 : SB_FORMAT_e4m3, 1, mx ? 32 : 16);
    return status;
}

/* Returns the container of byte codes with scales of this format and block size. A single scale
 * counts as the scale of the tensor. Exception: a scale [1, 1] without an input scale counts as a
 * grid of blocks if one block of 128 x 128 covers the layer. */
static sb_container bytes_container(const sb_probe *p, const sb_tensor *scale, sb_format format,
                                    const uint64_t block[2])
{
    uint32_t experts = p->found->experts;
    unsigned rank = scale->rank - (experts && scale->rank && scale->shape[0] == experts);
    if (p->found->matrix.format == SB_FORMAT_int8)
        return SB_CONTAINER_int8_channel;
    if (scale == SB_FOUND_PART(p, weight_scale_inv))
        return SB_CONTAINER_fp8_block;
    if (format == SB_FORMAT_e8m0 && block[0] == 1 && block[1] == 32 && p->cols % 32 == 0)
        return SB_CONTAINER_mxfp8;
    int one_block = rank >= 2 && !SB_FOUND_PART(p, input_scale) && p->rows <= 128 && p->cols <= 128;
    if (block[0] == p->rows && block[1] == p->cols && !one_block)
        return SB_CONTAINER_fp8_tensor;
    return block[0] == 1 && block[1] == p->cols ? SB_CONTAINER_fp8_channel
                                                : SB_CONTAINER_fp8_block_ct;
}

/* True if the scales fit integer codes: one per row, one per group of a row, or one for the whole
 * tensor. */
static int fits_integers(const sb_probe *p, const uint64_t d[2])
{
    return d[1] == 1 ? d[0] == 1 || d[0] == p->rows
                     : d[0] == p->rows && d[1] && p->cols % d[1] == 0;
}

/* Sets up FP8 with scales in any grid, and INT8. */
static sb_status take_bytes(sb_probe *p, const sb_tensor *scale, sb_format codes)
{
    uint64_t d[2] = {0, 0}, block[2];
    sb_format format = SB_FORMAT_f32;
    int bytes = codes == SB_FORMAT_int8;
    sb_status status = sb_probe_codes(p, SB_FOUND_PART(p, weight), codes, 1);
    if (!status)
        status = sb_probe_scale_format(p, scale, bytes ? SB_SCALES_REAL : SB_SCALES_ANY, &format);
    if (status)
        return status;
    if (!sb_probe_plane(p, scale, d) || (bytes && !fits_integers(p, d)))
        return sb_probe_want_shape(p, scale, p->rows, 1);
    block[0] = sb_probe_block(p->rows, d[0]);
    block[1] = bytes ? p->cols / d[1] : sb_probe_block(p->cols, d[1]);
    /* row scales stored as [1, N] */
    if (d[0] == 1 && d[1] == p->rows && p->rows != 1 && block[1] != 128 &&
        scale != SB_FOUND_PART(p, weight_scale_inv))
        return sb_probe_want_shape(p, scale, p->rows, 1);
    if (!block[0] || !block[1])
        return sb_probe_refuse(p, SB_ERR_INPUT,
                               "of [%" PRIu64 ", %" PRIu64 "] has [%" PRIu64 ", %" PRIu64
                               "] scales, expected one for each block of any one size",
                               p->rows, p->cols, d[0], d[1]);
    p->found->container = bytes_container(p, scale, format, block);
    return sb_probe_scales(p, scale, format, block[0], block[1]);
}

static sb_status take_plain(sb_probe *p)
{
    const sb_tensor *t = SB_FOUND_PART(p, weight);
    sb_format format;
    if (!sb_plain_format(t->dtype, &format))
        return sb_fail(p->err, SB_ERR_UNSUPPORTED,
                       "%s: tensor %s has dtype %s, which no scales explain; expected BF16, F16 or "
                       "F32, or the tensors of a quantized layer",
                       SB_SHOW(sb_checkpoint_path(p->checkpoint)), SB_SHOW(t->name),
                       sb_dtype_name(t->dtype));
    return sb_probe_codes(p, t, format, 1);
}

/* "Which container a layer has is decided by its tensors" */
static sb_status classify(sb_probe *p)
{
    const sb_tensor *weight = SB_FOUND_PART(p, weight), *packed = SB_FOUND_PART(p, weight_packed);
    const sb_tensor *scale = SB_FOUND_PART(p, weight_scale),
                    *inv = SB_FOUND_PART(p, weight_scale_inv);
    sb_container *container = &p->found->container;
    if (SB_FOUND_PART(p, qweight))
        return sb_take_gptq_awq(p);
    if (packed && packed->dtype == SB_DTYPE_I32) {
        *container = SB_CONTAINER_int_ct;
        return sb_take_int_ct(p);
    }
    if (packed || (weight && weight->dtype == SB_DTYPE_U8)) {
        sb_status status = sb_probe_want(p, SB_PART_weight_scale, SB_DTYPE_COUNT);
        if (!status && packed)
            status = sb_probe_want(p, SB_PART_weight_packed, SB_DTYPE_U8);
        if (status)
            return status;
        if (packed && scale->dtype != SB_DTYPE_F8_E4M3) {
            *container = SB_CONTAINER_mxfp4;
            status = sb_probe_scale_format(p, scale, SB_SCALES_POWER, &(sb_format){SB_FORMAT_e8m0});
            return status ? status : take_fp4(p, SB_PART_weight_packed, SB_PART_COUNT);
        }
        /* MXFP4 of ModelOpt: the same bytes as usual, but the tensor is called `weight` */
        if (scale->dtype == SB_DTYPE_U8 || scale->dtype == SB_DTYPE_F8_E8M0) {
            *container = SB_CONTAINER_mxfp4;
            return take_fp4(p, SB_PART_weight, SB_PART_COUNT);
        }
        if (scale->dtype != SB_DTYPE_F8_E4M3) {
            *container = SB_CONTAINER_int4_modelopt;
            return sb_take_int4_modelopt(p);
        }
        *container = packed ? SB_CONTAINER_nvfp4_ct : SB_CONTAINER_nvfp4_modelopt;
        return packed ? take_fp4(p, SB_PART_weight_packed, SB_PART_weight_global_scale)
                      : take_fp4(p, SB_PART_weight, SB_PART_weight_scale_2);
    }
    if (weight && (inv || scale) && weight->dtype == SB_DTYPE_F8_E4M3)
        return take_bytes(p, inv ? inv : scale, SB_FORMAT_e4m3);
    if (weight && scale && weight->dtype == SB_DTYPE_I8)
        return take_bytes(p, scale, SB_FORMAT_int8);
    *container = SB_CONTAINER_plain;
    return take_plain(p);
}

/* The parts that each container may have, as bits. Any other part is an error. */
static const uint32_t allowed[SB_CONTAINER_COUNT] = {
#define PART(suffix) (1u << SB_PART_##suffix)
#define SB_CONTAINER(id, name, family, scales, parts, packings, tensors) parts,
#include "ref/formats/containers.def"
#undef SB_CONTAINER
#undef PART
};

int sb_container_takes(sb_container container, sb_model_part part)
{
    return container < SB_CONTAINER_COUNT && (allowed[container] >> part & 1u);
}

int sb_container_has_words(sb_container container)
{
    return sb_container_family(container) == SB_FAMILY_INT &&
           !sb_container_takes(container, SB_PART_weight);
}

static sb_status refuse_superfluous(const sb_probe *p)
{
    const sb_found *f = p->found;
    if (SB_FOUND_PART(p, pre_quant_scale))
        return sb_probe_refuse(p, SB_ERR_UNSUPPORTED,
                               "has a pre_quant_scale: activations scaled before they are "
                               "quantized are not read");
    if (f->container == SB_CONTAINER_int4_modelopt && SB_FOUND_PART(p, weight_scale_2))
        return sb_probe_refuse(p, SB_ERR_UNSUPPORTED,
                               "has a weight_scale_2 beside INT4 codes: ModelOpt's W4A8_AWQ with "
                               "intermediate FP8 values is not read");
    for (unsigned part = 0; part < SB_PART_COUNT; part++)
        if ((f->part[part] && !sb_container_takes(f->container, (sb_model_part)part)) ||
            (part == SB_PART_weight && f->container == SB_CONTAINER_mxfp4 && f->part[part] &&
             SB_FOUND_PART(p, weight_packed))) /* either of the two names */
            return sb_fail(p->err, SB_ERR_INPUT,
                           "%s: tensor %s does not belong to a layer stored as %s (%s)",
                           SB_SHOW(sb_checkpoint_path(p->checkpoint)), SB_SHOW(f->part[part]->name),
                           sb_container_name(f->container), sb_container_tensors(f->container));
    return SB_OK;
}

static sb_status detect(sb_probe p)
{
    sb_found *found = p.found;
    sb_probe_find(&p);
    if (!SB_FOUND_PART(&p, weight) && !SB_FOUND_PART(&p, weight_packed) &&
        !SB_FOUND_PART(&p, qweight)) {
        for (unsigned part = 0; part < SB_PART_COUNT; part++)
            if (found->part[part])
                return sb_probe_refuse(
                    &p, SB_ERR_INPUT,
                    "has scales but no codes: expected weight, weight_packed or qweight");
        return SB_OK;
    }
    /* limited, because a small file can claim any number, and each expert takes memory */
    if (found->experts > SB_MAX_EXPERTS)
        return sb_probe_refuse(&p, SB_ERR_INPUT, "has %" PRIu32 " experts, expected at most %d",
                               found->experts, SB_MAX_EXPERTS);
    sb_status status = classify(&p);
    if (!status && (p.rows > UINT32_MAX || p.cols > UINT32_MAX))
        status = sb_probe_refuse(&p, SB_ERR_UNSUPPORTED,
                                 "is [%" PRIu64 ", %" PRIu64
                                 "], expected fewer than 2^32 rows and columns",
                                 p.rows, p.cols);
    if (!status)
        status = refuse_superfluous(&p);
    if (!status)
        status = read_factor(&p, 0, &found->matrix.quant);
    if (!status)
        status = read_input(&p, 0, &found->matrix.quant);
    if (!status)
        found->matrix.quant.container = found->container;
    return status;
}

sb_status sb_detect(const sb_checkpoint *checkpoint, const char *name, uint32_t experts,
                    uint64_t rows, uint64_t cols, sb_found *found, sb_error *err)
{
    *found = (sb_found){.container = SB_CONTAINER_COUNT, .experts = experts};
    return detect((sb_probe){checkpoint, name, found, rows, cols, err});
}

sb_status sb_detect_unjudged(const sb_checkpoint *checkpoint, const char *name, uint32_t experts,
                             uint64_t rows, uint64_t cols, sb_found *found, sb_error *err)
{
    *found = (sb_found){.container = SB_CONTAINER_COUNT, .experts = experts, .unjudged = 1};
    return detect((sb_probe){checkpoint, name, found, rows, cols, err});
}

sb_status sb_detect_headers(const sb_checkpoint *checkpoint, const char *name, uint32_t experts,
                            sb_found *found, sb_error *err)
{
    *found = (sb_found){
        .container = SB_CONTAINER_COUNT, .experts = experts, .unjudged = 1, .headers_only = 1};
    return detect((sb_probe){checkpoint, name, found, 0, 0, err});
}

/* Returns expert e's part of the tensor at `data`, or `data` if the experts share the tensor. */
static const unsigned char *expert_part(const sb_found *f, const unsigned char *data, uint32_t e)
{
    for (unsigned part = 0; part < SB_PART_COUNT && data; part++) {
        const sb_tensor *t = f->part[part];
        if (t && t->data == data && t->rank > 0 && t->shape[0] == f->experts)
            return data + e * (t->bytes / f->experts);
    }
    return data;
}

/* "expert e is the e-th part of each" */
sb_status sb_found_expert(const sb_checkpoint *checkpoint, const sb_found *found, uint32_t e,
                          sb_matrix *matrix, sb_error *err)
{
    sb_found f = *found;
    sb_probe p = {checkpoint, "", &f, found->matrix.rows, found->matrix.cols, err};
    sb_quant *q = &matrix->quant;
    *matrix = found->matrix;
    matrix->data = expert_part(found, matrix->data, e);
    q->scales = expert_part(found, q->scales, e);
    q->zero_points = expert_part(found, q->zero_points, e);
    q->group_index = expert_part(found, q->group_index, e);
    sb_status status = read_factor(&p, e, q);
    return status ? status : read_input(&p, e, q);
}

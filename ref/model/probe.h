/* probe.h - one layer during detection (detect.c): finds and checks its tensors. */
#ifndef SB_MODEL_PROBE_H
#define SB_MODEL_PROBE_H

#include "ref/model/detect.h"

typedef struct sb_probe {
    const sb_checkpoint *checkpoint;
    const char *name;
    sb_found *found;
    uint64_t rows, cols; /* expected; 0: unknown */
    sb_error *err;
} sb_probe;

#define SB_FOUND_PART(probe, suffix) ((probe)->found->part[SB_PART_##suffix])

/* Fills found->part. */
void sb_probe_find(const sb_probe *probe);

/* Fails with a message about the layer: "file: layer P <text>". The text must not contain names
 * from the file. */
sb_status sb_probe_refuse(const sb_probe *probe, sb_status status, const char *format, ...)
    SB_PRINTF(3, 4);

/* Fails unless the part exists and has this dtype; SB_DTYPE_COUNT: any dtype. */
sb_status sb_probe_want(const sb_probe *probe, sb_model_part part, sb_dtype dtype);

/* The shape of a part as a matrix [d0, d1], without the E of a stack: [] as [1, 1], [N] as [N, 1],
 * ModelOpt's [n, 1, k, 1] as [n, k], and in a convolution [C, 1, kw] as [C, kw]. Returns 0 for any
 * other shape. */
int sb_probe_plane(const sb_probe *probe, const sb_tensor *tensor, uint64_t d[2]);
sb_status sb_probe_want_shape(const sb_probe *probe, const sb_tensor *tensor, uint64_t d0,
                              uint64_t d1);

/* Fails unless a tensor of codes has two dimensions, after the E of a stack, or is [C, 1, kw] in a
 * convolution. */
sb_status sb_probe_want_matrix(const sb_probe *probe, const sb_tensor *tensor);

/* The side of a block if `count` blocks cover n elements; 0 if there is no such block. */
uint64_t sb_probe_block(uint64_t n, uint64_t count);

/* Sets the scales, their format and their block size. The scales have the shape [n, k]: blocks over
 * the layer's rows and cols. */
sb_status sb_probe_scales(const sb_probe *probe, const sb_tensor *scales, sb_format format,
                          uint64_t block_rows, uint64_t block_cols);

/* The format of scales: F32, F16 or BF16 (REAL), E8M0 under its own name or as U8 (POWER). */
typedef enum sb_scale_kind { SB_SCALES_ANY, SB_SCALES_REAL, SB_SCALES_POWER } sb_scale_kind;
sb_status sb_probe_scale_format(const sb_probe *probe, const sb_tensor *scales, sb_scale_kind kind,
                                sb_format *format);

/* Reads the factor of a tensor, or of expert e in a stack. It must be finite and not negative; a
 * divisor must not be 0. */
sb_status sb_probe_factor(const sb_probe *probe, const sb_tensor *tensor, int kind, uint32_t e,
                          sb_factor *factor);

/* Returns 1 and the plain format of a dtype, or 0 if a tensor without scales cannot have this
 * dtype. */
int sb_plain_format(sb_dtype dtype, sb_format *format);

/* Reads a multiplier of one element that belongs to no layer. */
sb_status sb_read_factor(const sb_checkpoint *checkpoint, const sb_tensor *tensor,
                         sb_factor *factor, sb_error *err);

/* Sets found->matrix to codes [rows, cols / per_element], still without scales. If rows and cols
 * are unknown, takes them from the tensor. */
sb_status sb_probe_codes(sb_probe *probe, const sb_tensor *codes, sb_format format,
                         uint64_t per_element);

/* In detect_int.c: the integer containers. */
sb_status sb_take_gptq_awq(sb_probe *probe);
sb_status sb_take_int_ct(sb_probe *probe);
sb_status sb_take_int4_modelopt(sb_probe *probe);

#endif

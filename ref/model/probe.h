/* probe.h - one layer while detect.c looks at it: finding its tensors, and checking them. */
#ifndef SB_MODEL_PROBE_H
#define SB_MODEL_PROBE_H

#include "ref/model/detect.h"

typedef struct sb_probe {
    const sb_checkpoint *checkpoint;
    const char *name;
    sb_found *found;
    uint64_t rows, cols; /* expected, 0 while unknown */
    sb_error *err;
} sb_probe;

#define SB_FOUND_PART(probe, suffix) ((probe)->found->part[SB_PART_##suffix])

/* Fills found->part. */
void sb_probe_find(const sb_probe *probe);

/* An error about the layer: "file: layer P <text>". The text holds no names from the file. */
sb_status sb_probe_refuse(const sb_probe *probe, sb_status status, const char *format, ...)
    SB_PRINTF(3, 4);

/* The part must be there and of this dtype; SB_DTYPE_COUNT is any. */
sb_status sb_probe_want(const sb_probe *probe, sb_model_part part, sb_dtype dtype);

/* The shape of a part as matrix [d0, d1]: without the E of a stack, [] and [N] as [1, 1] and
 * [N, 1], ModelOpt's [n, 1, k, 1] as [n, k]. 0 if it is none of these. */
int sb_probe_plane(const sb_probe *probe, const sb_tensor *tensor, uint64_t d[2]);
sb_status sb_probe_want_shape(const sb_probe *probe, const sb_tensor *tensor, uint64_t d0,
                              uint64_t d1);

/* Codes: two dimensions, behind the E of a stack. */
sb_status sb_probe_want_matrix(const sb_probe *probe, const sb_tensor *tensor);

/* Elements of `count` blocks' side that cover n; 0 if there is no such block. */
uint64_t sb_probe_block(uint64_t n, uint64_t count);

/* Sets scales, their format and their block size: [n, k] blocks over the layer's rows and cols. */
sb_status sb_probe_scales(const sb_probe *probe, const sb_tensor *scales, sb_format format,
                          uint64_t block_rows, uint64_t block_cols);

/* The format of scales: F32, F16 or BF16 (REAL), E8M0 under its own name or as U8 (POWER). */
typedef enum sb_scale_kind { SB_SCALES_ANY, SB_SCALES_REAL, SB_SCALES_POWER } sb_scale_kind;
sb_status sb_probe_scale_format(const sb_probe *probe, const sb_tensor *scales, sb_scale_kind kind,
                                sb_format *format);

/* Reads a number that the tensor shares (of expert e in a stack): finite, not negative, and not 0
 * if it divides. */
sb_status sb_probe_factor(const sb_probe *probe, const sb_tensor *tensor, int kind, uint32_t e,
                          sb_factor *factor);

/* The plain format of a dtype: 1, or 0 if a tensor without scales cannot have it. */
int sb_plain_format(sb_dtype dtype, sb_format *format);

/* A multiplier that belongs to no layer: one element. */
sb_status sb_read_factor(const sb_checkpoint *checkpoint, const sb_tensor *tensor,
                         sb_factor *factor, sb_error *err);

/* Starts found->matrix with codes [rows, cols / per_element]; without an expectation of rows and
 * cols the tensor decides. */
sb_status sb_probe_codes(sb_probe *probe, const sb_tensor *codes, sb_format format,
                         uint64_t per_element);

/* detect_int.c: the integer containers. */
sb_status sb_take_gptq_awq(sb_probe *probe);
sb_status sb_take_int_ct(sb_probe *probe);
sb_status sb_take_int4_modelopt(sb_probe *probe);

#endif

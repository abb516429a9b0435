/* scheme.h - the lists of formats and schemes as tables: how a format quantizes a linear layer, and
 * the tensors of the result. */
#ifndef SB_TOOLS_MAKE_SCHEME_H
#define SB_TOOLS_MAKE_SCHEME_H

#include "ref/container/dtype.h"
#include "ref/model/detect.h"
#include "ref/model/names.h"
#include "tools/make/quantize.h"

typedef enum sb_scheme {
    SB_SCHEME_plain, /* not quantized */
#define SB_SCHEME(id, container, rows, group, step, factor, fused, quantize) SB_SCHEME_##id,
#include "tools/make/schemes.def"
#undef SB_SCHEME
    SB_SCHEMES
} sb_scheme;

typedef enum sb_content {
    SB_CONTENT_plain, /* the values of a tensor that is not quantized */
    SB_CONTENT_codes,
    SB_CONTENT_scales,
    SB_CONTENT_zeros,
    SB_CONTENT_factor,
    SB_CONTENT_input,
    SB_CONTENT_shape,
    SB_CONTENT_index,
    SB_CONTENT_kv
} sb_content;

/* Layers that share a factor, because engines fuse them. */
typedef enum sb_fused { SB_FUSED_NOBODY, SB_FUSED_EXPERTS, SB_FUSED_ALL } sb_fused;

typedef struct sb_scheme_info {
    sb_container container;
    uint32_t band;       /* rows of a band; 0: all rows of the matrix */
    uint32_t group;      /* default columns per scale; 0: no choice */
    uint32_t step;       /* K must be a multiple of this */
    sb_factor_fn factor; /* NULL: the tensor has no factor */
    sb_fused fused;
    void (*quantize)(const sb_band *band);
} sb_scheme_info;

const sb_scheme_info *sb_scheme_at(sb_scheme scheme);

/* One tensor of a quantized layer of `rows` x `cols`. */
typedef struct sb_scheme_tensor {
    const char *suffix;
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[2];
    sb_content content;
} sb_scheme_tensor;

/* Tensor i of a scheme; 0 if there are no more. */
int sb_scheme_tensor_at(sb_scheme scheme, size_t i, uint64_t rows, uint64_t cols, uint32_t group,
                        sb_scheme_tensor *out);

/* Sets of modules, as bits. A role belongs to one of them; a row of formats.def names several. */
enum {
    SB_MODULES_ATTENTION = 1,
    SB_MODULES_LINEAR = 2,
    SB_MODULES_DECAY = 4,
    SB_MODULES_EXPERTS = 8,
    SB_MODULES_SHARED = 16,
    SB_MODULES_DENSE = 32,
    SB_MODULES_HEAD = 64,
    SB_MODULES_CONV = 128
};
unsigned sb_modules_of(sb_role role); /* 0: never quantized */

typedef enum sb_make_dialect {
    SB_MAKE_DIALECT_none,
    SB_MAKE_DIALECT_compressed_tensors,
    SB_MAKE_DIALECT_modelopt,
    SB_MAKE_DIALECT_fp8,
    SB_MAKE_DIALECT_gptq,
    SB_MAKE_DIALECT_awq,
    SB_MAKE_DIALECT_auto_round,
    SB_MAKE_DIALECT_quark
} sb_make_dialect;

typedef struct sb_make_format {
    const char *name, *help;
    sb_dtype dtype;
    sb_make_dialect dialect;
    unsigned rules; /* a bit per sb_scale_rule */
    sb_scheme scheme[2];
    unsigned modules[2];
    unsigned mtp_modules;
    int mtp_split;
} sb_make_format;

size_t sb_make_format_count(void);
const sb_make_format *sb_make_format_at(size_t position);

/* The scheme of a format for a role. */
sb_scheme sb_make_format_scheme(const sb_make_format *format, sb_role role, int in_mtp);

#endif

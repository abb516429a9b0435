#include "tools/make/scheme.h"

#include <stddef.h>

#include "ref/base/bytes.h"
#include "tools/make/bulk.h"

#define sb_factor_none NULL

static const sb_scheme_info schemes[] = {
    {SB_CONTAINER_plain, 0, 0, 1, NULL, SB_FUSED_NOBODY, NULL},
#define SB_SCHEME(id, container, rows, group, step, factor, fused, quantize)                       \
    {SB_CONTAINER_##container, rows, group, step, sb_factor_##factor, SB_FUSED_##fused,            \
     sb_quantize_##quantize},
#include "tools/make/schemes.def"
#undef SB_SCHEME
};

const sb_scheme_info *sb_scheme_at(sb_scheme scheme)
{
    return &schemes[scheme];
}

typedef enum dim {
    DIM_N,
    DIM_K,
    DIM_K2,
    DIM_K4,
    DIM_K8,
    DIM_K16,
    DIM_K32,
    DIM_K128,
    DIM_N4,
    DIM_N8,
    DIM_N128,
    DIM_G,
    DIM_one,
    DIM_two
} dim;

static uint64_t dim_value(dim d, uint64_t rows, uint64_t cols, uint32_t group)
{
    static const uint32_t divisor[] = {
        [DIM_K] = 1,    [DIM_K2] = 2,   [DIM_K4] = 4,    [DIM_K8] = 8,
        [DIM_K16] = 16, [DIM_K32] = 32, [DIM_K128] = 128};
    static const uint32_t of_rows[] = {[DIM_N] = 1, [DIM_N4] = 4, [DIM_N8] = 8, [DIM_N128] = 128};
    if (d == DIM_one || d == DIM_two)
        return d == DIM_one ? 1 : 2;
    if (d == DIM_G)
        return cols / group;
    if (d >= DIM_K && d <= DIM_K128)
        return (cols + divisor[d] - 1) / divisor[d];
    return (rows + of_rows[d] - 1) / of_rows[d];
}

static const struct {
    sb_scheme scheme;
    const char *suffix;
    sb_dtype dtype;
    unsigned rank;
    dim dims[2];
    sb_content content;
} parts[] = {
#define SB_SCHEME_PART(scheme, suffix, dtype, rank, d0, d1, content)                               \
    {SB_SCHEME_##scheme,  #suffix, SB_DTYPE_##dtype, rank, {DIM_##d0, DIM_##d1},                   \
     SB_CONTENT_##content},
#include "tools/make/schemes.def"
#undef SB_SCHEME_PART
};

int sb_scheme_tensor_at(sb_scheme scheme, size_t i, uint64_t rows, uint64_t cols, uint32_t group,
                        sb_scheme_tensor *out)
{
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        if (parts[p].scheme != scheme || i-- > 0)
            continue;
        *out = (sb_scheme_tensor){.suffix = parts[p].suffix,
                                  .dtype = parts[p].dtype,
                                  .rank = parts[p].rank,
                                  .content = parts[p].content};
        for (unsigned d = 0; d < 2; d++)
            out->shape[d] = dim_value(parts[p].dims[d], rows, cols, group);
        return 1;
    }
    return 0;
}

unsigned sb_modules_of(sb_role role)
{
    switch (role) {
    case SB_ROLE_q_proj:
    case SB_ROLE_k_proj:
    case SB_ROLE_v_proj:
    case SB_ROLE_o_proj:
        return SB_MODULES_ATTENTION;
    case SB_ROLE_in_proj_qkv:
    case SB_ROLE_in_proj_z:
    case SB_ROLE_in_proj_qkvz:
    case SB_ROLE_linear_out_proj:
        return SB_MODULES_LINEAR;
    case SB_ROLE_in_proj_a:
    case SB_ROLE_in_proj_b:
    case SB_ROLE_in_proj_ba:
        return SB_MODULES_DECAY;
    case SB_ROLE_expert_gate:
    case SB_ROLE_expert_up:
    case SB_ROLE_expert_down:
        return SB_MODULES_EXPERTS;
    case SB_ROLE_shared_gate_proj:
    case SB_ROLE_shared_up_proj:
    case SB_ROLE_shared_down_proj:
        return SB_MODULES_SHARED;
    case SB_ROLE_gate_proj:
    case SB_ROLE_up_proj:
    case SB_ROLE_down_proj:
        return SB_MODULES_DENSE;
    case SB_ROLE_lm_head:
        return SB_MODULES_HEAD;
    case SB_ROLE_conv1d:
        return SB_MODULES_CONV;
    default:
        return 0;
    }
}

#define RULE(id) (1u << SB_SCALE_RULE_##id)
#define STACKED 0
#define SPLIT 1
enum {
    ATTENTION = SB_MODULES_ATTENTION,
    LINEAR = SB_MODULES_LINEAR,
    DECAY = SB_MODULES_DECAY,
    EXPERTS = SB_MODULES_EXPERTS,
    SHARED = SB_MODULES_SHARED,
    DENSE = SB_MODULES_DENSE,
    HEAD = SB_MODULES_HEAD,
    CONV = SB_MODULES_CONV
};

static const sb_make_format formats[] = {
#define SB_MAKE_FORMAT(id, name, dtype, dialect, rules, first, modules, second, others, mtp,       \
                       experts, help)                                                              \
    {name,                                                                                         \
     help,                                                                                         \
     SB_DTYPE_##dtype,                                                                             \
     SB_MAKE_DIALECT_##dialect,                                                                    \
     rules,                                                                                        \
     {SB_SCHEME_##first, SB_SCHEME_##second},                                                      \
     {modules, others},                                                                            \
     mtp,                                                                                          \
     experts},
#include "tools/make/formats.def"
#undef SB_MAKE_FORMAT
};

size_t sb_make_format_count(void)
{
    return sizeof formats / sizeof *formats;
}

const sb_make_format *sb_make_format_at(size_t position)
{
    return &formats[position];
}

sb_scheme sb_make_format_scheme(const sb_make_format *format, sb_role role, int in_mtp)
{
    unsigned of = sb_modules_of(role);
    if (in_mtp)
        return of & format->mtp_modules ? format->scheme[0] : SB_SCHEME_plain;
    for (unsigned i = 0; i < 2; i++)
        if (of & format->modules[i])
            return format->scheme[i];
    return SB_SCHEME_plain;
}

float sb_largest(const float *weights, size_t n)
{
    float largest;
    sb_bulk_largest_of(weights, n, &largest);
    return largest;
}

/* cost.h - the bytes and multiplications of kernels, computed from the shapes of a call. Tests
 * compare them with the emulator's counts; the ledger of `samebit bench` uses them. For C and C++.
 */
#ifndef SB_GPU_KERNEL_COST_H
#define SB_GPU_KERNEL_COST_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum sb_cost_kernel {
#define SB_COST_KERNEL(id, name, launches, macs) SB_COST_##id,
#include "gpu/kernel/cost.def"
    SB_COST_KERNELS
} sb_cost_kernel;

typedef enum sb_cost_role {
    SB_COST_WEIGHT,
    SB_COST_KEPT,
    SB_COST_VALUE,
    SB_COST_PASSED,
    SB_COST_PLACE,
    SB_COST_ROLES
} sb_cost_role;

/* The letters of cost.def; letters that a kernel does not use are 0. */
typedef struct sb_cost_shape {
    uint64_t rows;          /* R, of a call */
    uint64_t outputs;       /* N of a matrix, or elements of a row */
    uint64_t inputs;        /* K of a matrix, or taps */
    uint64_t packed, width; /* W, bytes of a packed matrix; C, its padded columns */
    uint64_t heads, groups; /* H; G, heads of keys */
    uint64_t key, value;    /* D and V, elements of a head */
    uint64_t experts;       /* E */
    uint64_t pairs;         /* P, pairs of rows and experts */
    uint64_t used;          /* U, experts with pairs, or distinct tokens */
    uint64_t sets;          /* S, sets of pairs */
    uint64_t first;         /* positions before the call */
    uint64_t kv_bytes;      /* B, bytes of an element of a key or value */
    uint64_t scales;        /* Q, binary32 scales of a row of E4M3 */
    uint64_t quantized;     /* M, rows of E2M1 inputs: R, or P if experts have input factors */
    int gathers, trail, split, draws;
    int slots; /* nonzero: several states; a number in memory selects the current one */
    /* For fused kernels. adds: values are added to the stream. The output is written as values
     * (leaves), staged for layers (stages) and staged for experts (feeds). */
    int adds, leaves, stages, feeds;
    int rounded; /* queries and keys are bfloat16 */
} sb_cost_shape;

/* `again` in cost.def: the row gives no number for the bytes that blocks read. */
#define SB_COST_AGAIN UINT64_MAX

typedef struct sb_cost_buffer {
    sb_cost_kernel kernel;
    const char *name;
    sb_cost_role role;
    uint64_t read, written, by_blocks;
} sb_cost_buffer;

static inline uint64_t sb_cost_up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit;
}

/* The number of parts of 256 positions that a row sees, summed over rows. */
static inline uint64_t sb_cost_parts(const sb_cost_shape *s)
{
    uint64_t sum = 0;
    for (uint64_t row = 0; row < s->rows; row++)
        sum += sb_cost_up(s->first + row + 1, 256);
    return sum;
}

/* The number of pairs (i, j) of rows of the same chunk of 64 with j <= i. */
static inline uint64_t sb_cost_inside(const sb_cost_shape *s)
{
    const uint64_t left = s->rows % 64;
    return s->rows / 64 * (64 * 65 / 2) + left * (left + 1) / 2;
}

/* The number of products in the inverse of R-22: the sum of i - j over all pairs (i, j) of rows of
 * the same chunk. */
static inline uint64_t sb_cost_inverse(const sb_cost_shape *s)
{
    const uint64_t left = s->rows % 64;
    return s->rows / 64 * (63 * 64 * 65 / 6) + left * (left + 1) * (left - (left > 0)) / 6;
}

/* True if each part of the cache has its own blocks. */
static inline int sb_cost_splits(const sb_cost_shape *s)
{
    const uint64_t group = s->groups ? s->heads / s->groups : 1;
    return s->first + s->rows > 256 && sb_cost_up(s->rows * group, 16) * s->groups < 96;
}

/* The pairs of a row and a head in a block of attention (cut_of in gpu/op/attention.cc). */
static inline uint64_t sb_cost_pairs(const sb_cost_shape *s)
{
    const uint64_t pairs = s->rows * (s->groups ? s->heads / s->groups : 1);
    const uint64_t parts = sb_cost_splits(s) ? sb_cost_up(s->first + s->rows, 256) : 1;
    return pairs >= 128 && sb_cost_up(pairs, 64) * s->groups * parts >= 32 ? 64 : 16;
}

/* The number of positions that the last row of a block sees, summed over blocks. */
static inline uint64_t sb_cost_ends(const sb_cost_shape *s)
{
    const uint64_t group = s->groups ? s->heads / s->groups : 1, pairs = sb_cost_pairs(s);
    uint64_t sum = 0;
    for (uint64_t first = 0; first < s->rows * group; first += pairs) {
        const uint64_t last = (first + pairs - 1) / group;
        sum += s->first + (last < s->rows ? last + 1 : s->rows);
    }
    return sum;
}

/* Y-85: "If a call has more than 64 rows, and its matrix and rows make at least 64 blocks of 128
 * rows of weights by 128 of inputs, it is computed by such blocks." */
static inline int sb_cost_is_wide(uint64_t rows, uint64_t outputs)
{
    return rows > 64 && sb_cost_up(rows, 128) * sb_cost_up(outputs, 128) >= 64;
}

/* Y-61: the most pairs in a set, for inputs in bfloat16. */
static inline uint64_t sb_cost_set(uint64_t pairs, uint64_t experts)
{
    return pairs / 32 > experts ? 128 : pairs / 8 > experts ? 64 : 8;
}

static inline uint32_t sb_cost_launches(sb_cost_kernel kernel)
{
    static const uint32_t all[] = {
#define SB_COST_KERNEL(id, name, launches, macs) launches,
#include "gpu/kernel/cost.def"
    };
    return all[kernel];
}

enum {
    SB_COST_BUFFERS = 0
#define SB_COST_BUFFER(id, name, role, read, written, by_blocks) +1
#include "gpu/kernel/cost.def"
};

/* The id of a kernel in cost.def, like "linear" for "sb_linear_kernel". */
static inline const char *sb_cost_id(sb_cost_kernel kernel)
{
    static const char *const ids[] = {
#define SB_COST_KERNEL(id, name, launches, macs) #id,
#include "gpu/kernel/cost.def"
    };
    return ids[kernel];
}

static inline const char *sb_cost_name(sb_cost_kernel kernel)
{
    static const char *const names[] = {
#define SB_COST_KERNEL(id, name, launches, macs) name,
#include "gpu/kernel/cost.def"
    };
    return names[kernel];
}

/* B-15: "the distinct bytes that a launch reads and writes, and the bytes that the blocks read" -
 * computes them for every buffer of every kernel, for one shape, and the multiply-adds of each
 * kernel. */
static inline void sb_cost_of(const sb_cost_shape *s, sb_cost_buffer all[SB_COST_BUFFERS],
                              uint64_t macs[SB_COST_KERNELS])
{
    const uint64_t R = s->rows, N = s->outputs, K = s->inputs, W = s->packed, C = s->width;
    const uint64_t H = s->heads, G = s->groups, D = s->key, V = s->value, E = s->experts;
    const uint64_t P = s->pairs, U = s->used, S = s->sets, B = s->kv_bytes, L = s->first + R;
    const uint64_t Q = s->scales, M = s->quantized;
    const uint64_t gathers = s->gathers != 0, trail = s->trail != 0, split = s->split != 0;
    const uint64_t routed = E != 0, draws = s->draws != 0, adds = s->adds != 0;
    const uint64_t leaves = s->leaves != 0, stages = s->stages != 0, feeds = s->feeds != 0;
    const uint64_t rounded = s->rounded != 0, slots = s->slots != 0;
    const uint64_t seen = R * s->first + R * (R + 1) / 2, again = SB_COST_AGAIN;
    const uint64_t ends = sb_cost_ends(s), parts = sb_cost_parts(s);
    const uint64_t inside = sb_cost_inside(s), inverse = sb_cost_inverse(s);
#define up sb_cost_up
    const sb_cost_buffer buffers[SB_COST_BUFFERS] = {
#define SB_COST_BUFFER(id, name, role, read, written, by_blocks)                                   \
    {SB_COST_##id, name, SB_COST_##role, read, written, by_blocks},
#include "gpu/kernel/cost.def"
    };
    const uint64_t products[SB_COST_KERNELS] = {
#define SB_COST_KERNEL(id, name, launches, macs) macs,
#include "gpu/kernel/cost.def"
    };
#undef up
    memcpy(all, buffers, sizeof buffers);
    memcpy(macs, products, sizeof products);
}

/* --- matrices --------------------------------------------------------------------------------- */
/* The packed form of a matrix for the bf16 unit (docs/gpu-linear.md): bits of a code, bytes of a
 * scale, and the number of columns that share a scale. group 0: one scale for each row, or none if
 * `scale` is 0. */
typedef struct sb_cost_format {
    uint32_t bits, scale, group;
} sb_cost_format;

/* The bytes of a packed matrix: rows are in tiles of 16, columns in chunks of 64. With one binary32
 * scale for each row, the scales of padding rows are not read and do not count. */
static inline uint64_t sb_cost_packed(sb_cost_format f, uint64_t rows, uint64_t cols)
{
    const uint64_t chunks = sb_cost_up(cols, 64), places = 16 * sb_cost_up(rows, 16);
    uint64_t scales = 1;
    if (f.group && cols > f.group)
        scales = f.group < 64 ? chunks * (64 / f.group) : sb_cost_up(chunks, f.group / 64);
    const uint64_t scaled = scales == 1 && f.scale == 4 ? rows : places;
    return places * chunks * 64 * f.bits / 8 + scaled * scales * f.scale;
}

#endif

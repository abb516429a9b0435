#include "ref/fast/dot/dot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/fast/dot/kernels.h"
#include "ref/fast/dot/lanes.h"
#include "ref/fast/dot/superacc.h"
#include "ref/formats/plain_row.h"
#include "ref/math/exact.h"
#include "ref/math/start.h"

/* Terms of strided or stored arrays are copied in pieces of this size. */
enum { PIECE = 256 };

/* The number of roundings that a term may pass through beyond n - 1 for n terms. */
enum { SPARE = 8 };

/* The factor in error_bound() is proven up to this number of terms. */
static const size_t TERMS_MAX = (size_t)1 << 28;

static const sb_dot_kernels exact_only = {.name = "exact"};

static const sb_dot_kernels *selected; /* NULL until chosen: scalar */

const sb_dot_kernels *sb_dot_kernels_now(void)
{
    return selected ? selected : sb_dot_scalar;
}

const sb_dot_kernels *sb_dot_set(size_t i)
{
    const sb_dot_kernels *sets[] = {&exact_only,
                                    sb_dot_scalar,
                                    sb_dot_avx2_supported() ? sb_dot_avx2 : NULL,
                                    sb_dot_avx512_supported() ? sb_dot_avx512 : NULL,
                                    sb_dot_avx512vnni_supported() ? sb_dot_avx512vnni : NULL,
                                    sb_dot_neon};
    for (size_t at = 0; at < sizeof sets / sizeof *sets; at++)
        if (sets[at] && i-- == 0)
            return sets[at];
    return NULL;
}

sb_status sb_dot_select(const char *name, sb_error *err)
{
    char names[80] = "";
    const sb_dot_kernels *set;
    for (size_t i = 0; (set = sb_dot_set(i)) != NULL; i++) {
        if (strcmp(name, set->name) == 0 || (strcmp(name, "auto") == 0 && !sb_dot_set(i + 1))) {
            selected = set;
            return SB_OK;
        }
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, ", %s", set->name);
    }
    return sb_fail(err, SB_ERR_USAGE, "no kernels '%s' on this machine: expected auto%s", name,
                   names);
}

const char *sb_dot_selected(void)
{
    return sb_dot_kernels_now()->name;
}

sb_status sb_math_start(const char *isa, sb_error *err)
{
    sb_status status = sb_math_check(err);
    if (status)
        return status;
    if (!isa)
        isa = getenv("SAMEBIT_ISA");
    return sb_dot_select(isa && *isa ? isa : "auto", err);
}

int sb_math_is_exact(void)
{
    return strcmp(sb_dot_selected(), "exact") == 0;
}

/* An upper bound of |S^ - S|, where S^ is a binary64 sum in which no term passes through more than
 * d roundings, S the exact sum, and `magnitude` the sum of absolute values, in which each term also
 * passes through at most d roundings.
 *
 * Let u = 2^-53 and M = sum |p_i|. The terms are the leaves of a binary tree of additions and
 * multiplications by exact factors. Each rounding multiplies by a factor within 1 +- u. Nothing
 * underflows, because everything is a multiple of 2^-700. Hence |S^ - S| <= ((1+u)^d - 1) M <=
 * du/(1-du) M, and magnitude >= (1-du) M. Together: |S^ - S| <= du/(1-du)^2 magnitude. With d <=
 * 2^28 + 8, du is below 2^-24, and 1 + 2^-16 covers the denominator and the roundings of the line
 * below. */
static double error_bound(size_t steps, double magnitude)
{
    return (double)steps * 0x1.0001p-53 * magnitude;
}

/* The interval from sum - bound to sum + bound contains the exact sum. `bound` includes 2^-52
 * |sum|, which covers the rounding of the two ends. Rounding is monotonic, so if both ends round to
 * the same bits, so does every number between them. This includes the sign of zero: both ends round
 * to -0 only if high < 0, and to +0 only if low >= 0. */
int sb_round_within(sb_partial partial, size_t steps, float *rounded)
{
    double size = sb_absolute(partial.sum);
    if (!(size < 0x1p1000) || !(partial.magnitude < 0x1p1000)) /* too large, infinite or NaN */
        return 0;
    double bound = error_bound(steps, partial.magnitude) + size * 0x1p-52;
    float low = (float)(partial.sum - bound);
    float high = (float)(partial.sum + bound);
    *rounded = low;
    return sb_bits_f32(low) == sb_bits_f32(high);
}

/* A term passes through d <= n - 1 additions, because adding to zero is exact. The test allows 8
 * more. */
int sb_round_certain(sb_partial partial, size_t n, float *rounded)
{
    return n <= TERMS_MAX && sb_round_within(partial, n + SPARE, rounded);
}

/* The source of the terms of a reduction. b == NULL: a plain sum. */
typedef struct terms {
    const float *a;
    size_t stride_a;
    const unsigned char *codes; /* if not NULL, replaces a */
    sb_format format;
    const float *b;
    size_t stride_b;
    size_t n;
} terms;

static void gather(const float *from, size_t stride, size_t count, float *to)
{
    if (stride == 1)
        memcpy(to, from, count * sizeof to[0]);
    else
        for (size_t k = 0; k < count; k++)
            to[k] = from[k * stride];
}

/* Copies terms i, i+1, ... to a and b; returns their number. */
static size_t load_piece(const terms *t, size_t i, float a[PIECE], float b[PIECE])
{
    static const float one = 1.0f;
    size_t count = t->n - i < PIECE ? t->n - i : PIECE;
    if (t->codes)
        sb_decode(t->format, t->codes + i * sb_format_bytes(t->format), count, a);
    else
        gather(t->a + i * t->stride_a, t->stride_a, count, a);
    if (t->b)
        gather(t->b + i * t->stride_b, t->stride_b, count, b);
    else
        gather(&one, 0, count, b);
    return count;
}

static void add_kept(sb_compensated *to, const double *a, const double *b, size_t n)
{
    const sb_dot_kernels *set = sb_dot_kernels_now();
    (set->kept ? set->kept : sb_compensated_add)(to, a, b, n);
}

/* Copies the next terms as doubles; returns their number. */
static size_t load_wide(const terms *t, size_t i, double a[PIECE], double b[PIECE])
{
    float narrow_a[PIECE], narrow_b[PIECE];
    size_t count = load_piece(t, i, narrow_a, narrow_b);
    for (size_t k = 0; k < count; k++) {
        a[k] = narrow_a[k];
        b[k] = narrow_b[k];
    }
    return count;
}

/* Applies the definition to the same terms. */
static float round_exact(const terms *t)
{
    float a[PIECE], b[PIECE];
    sb_exact acc;
    sb_exact_clear(&acc);
    for (size_t i = 0, count; i < t->n; i += count) {
        count = load_piece(t, i, a, b);
        for (size_t k = 0; k < count; k++)
            sb_exact_add_product(&acc, a[k], b[k]);
    }
    return sb_exact_round(&acc);
}

/* Computes a reduction whose rounding the binary64 sum could not decide. Tries a compensated sum
 * first, then uses the exact sum. */
static float settle_reduction(const terms *t)
{
    static const sb_scalar one = SB_SCALAR_ONE;
    double a[PIECE], b[PIECE];
    float rounded;
    sb_compensated kept = {0, 0, 0, 0};
    sb_superacc bins = {{0}, {0}, 0};
    sb_exact sum;
    for (size_t i = 0, count; i < t->n; i += count) {
        count = load_wide(t, i, a, b);
        add_kept(&kept, a, b, count);
    }
    if (sb_compensated_round(&kept, t->n, &one, &rounded))
        return rounded;
    if (t->n > TERMS_MAX)
        return round_exact(t);
    for (size_t i = 0, count; i < t->n; i += count) {
        count = load_wide(t, i, a, b);
        sb_superacc_add(&bins, a, b, count);
    }
    sb_superacc_sum(&bins, &sum);
    return sb_exact_round(&sum);
}

/* Sums a reduction in pieces: additions within each piece, then additions of the pieces. */
static sb_partial sum_pieces(const terms *t)
{
    float a[PIECE], b[PIECE];
    sb_partial total = {0, 0};
    for (size_t i = 0, count; i < t->n; i += count) {
        count = load_piece(t, i, a, b);
        sb_partial part = sb_dot_kernels_now()->f32(a, b, count);
        total.sum += part.sum;
        total.magnitude += part.magnitude;
    }
    return total;
}

static float reduce_pieces(const terms *t)
{
    float rounded;
    if (!sb_dot_kernels_now()->f32)
        return round_exact(t);
    return sb_round_certain(sum_pieces(t), t->n, &rounded) ? rounded : settle_reduction(t);
}

/* "correctly rounded binary32 value, ties to even, of the exact sum of the exact products of
 * its operands" */
float sb_dot(const float *a, const float *b, size_t n)
{
    float rounded;
    if (!sb_dot_kernels_now()->f32)
        return sb_exact_dot(a, 1, b, 1, n);
    if (sb_round_certain(sb_dot_kernels_now()->f32(a, b, n), n, &rounded))
        return rounded;
    terms t = {.a = a, .stride_a = 1, .b = b, .stride_b = 1, .n = n};
    return settle_reduction(&t);
}

float sb_dot_strided(const float *a, size_t stride_a, const float *b, size_t stride_b, size_t n)
{
    if (stride_a == 1 && stride_b == 1)
        return sb_dot(a, b, n);
    terms t = {.a = a, .stride_a = stride_a, .b = b, .stride_b = stride_b, .n = n};
    return reduce_pieces(&t);
}

void sb_dot_columns(const float *a, size_t stride_a, const float *b, size_t stride_b, size_t n,
                    size_t columns, float *out)
{
    enum { AT_ONCE = 64 };
    sb_partial partials[AT_ONCE];
    for (size_t j = 0, count; j < columns; j += count) {
        count = columns - j < AT_ONCE ? columns - j : AT_ONCE;
        if (sb_dot_kernels_now()->columns)
            sb_dot_kernels_now()->columns(a, stride_a, b + j, stride_b, n, count, partials);
        for (size_t l = 0; l < count; l++) {
            terms t = {a, stride_a, NULL, SB_FORMAT_f32, b + j + l, stride_b, n};
            float rounded;
            if (!sb_dot_kernels_now()->columns)
                out[j + l] = round_exact(&t);
            else
                out[j + l] =
                    sb_round_certain(partials[l], n, &rounded) ? rounded : settle_reduction(&t);
        }
    }
}

float sb_sum(const float *a, size_t n)
{
    sb_partial partial = {0, 0};
    terms t = {.a = a, .stride_a = 1, .n = n};
    float rounded;
    if (!sb_dot_kernels_now()->f32)
        return round_exact(&t);
    const sb_lane_kernels *lanes = sb_lanes();
    size_t whole = n - n % lanes->width;
    if (whole > 0)
        lanes->sum(a, whole, &partial.sum, &partial.magnitude);
    for (size_t i = whole; i < n; i++) {
        partial.sum += a[i];
        partial.magnitude += sb_absolute(a[i]);
    }
    return sb_round_certain(partial, n, &rounded) ? rounded : settle_reduction(&t);
}

/* The definition, for values wider than binary32. */
static float wide_exact(const double *a, const double *b, size_t n, const sb_scalar *scalar)
{
    sb_exact acc;
    sb_exact_clear(&acc);
    for (size_t i = 0; i < n; i++)
        sb_exact_add_wide_product(&acc, a[i], b[i]);
    return sb_exact_round_scaled(&acc, scalar);
}

/* The exact sum. Adds only a few parts if the chosen set can reduce the products to parts. */
static sb_exact wide_sum(const double *a, const double *b, size_t n)
{
    sb_superacc bins = {{0}, {0}, 0};
    double parts[SB_PARTS];
    sb_exact sum;
    if (sb_dot_kernels_now()->parts && sb_dot_kernels_now()->parts(a, b, n, parts)) {
        for (size_t i = 0; i < SB_PARTS; i++)
            sb_superacc_add_part(&bins, parts[i]);
        sb_superacc_sum(&bins, &sum);
        if (!sum.poisoned)
            return sum;
    }
    bins = (sb_superacc){{0}, {0}, 0};
    sb_superacc_add(&bins, a, b, n);
    sb_superacc_sum(&bins, &sum);
    return sum;
}

/* Here products may be rounded, and so is the sum times the factors. A term passes through at most
 * n + 4 roundings, which n - 1 and the SPARE of 8 cover. The two products of factors are exact, 24
 * x 24 bits. Nothing underflows: the smallest value is above 2^-340 2^-298 2^-256. */
static int wide_binary64(const double *a, const double *b, size_t n, const sb_scalar *scalar,
                         float *rounded)
{
    double mul = (double)scalar->mul[0] * (double)scalar->mul[1];
    double div = (double)scalar->div[0] * (double)scalar->div[1];
    sb_partial partial = sb_dot_kernels_now()->f64(a, b, n);
    partial.sum = partial.sum * mul / div;
    partial.magnitude = partial.magnitude * sb_absolute(mul) / sb_absolute(div);
    return sb_round_certain(partial, n, rounded);
}

static int wide_kept(const double *a, const double *b, size_t n, const sb_scalar *scalar,
                     float *rounded)
{
    sb_compensated kept = {0, 0, 0, 0};
    add_kept(&kept, a, b, n);
    return sb_compensated_round(&kept, n, scalar, rounded);
}

float sb_dot_wide_from(const double *a, const double *b, size_t n, const sb_scalar *scalar,
                       sb_effort *effort)
{
    float rounded;
    if (!sb_dot_kernels_now()->f64 || n > TERMS_MAX)
        return wide_exact(a, b, n, scalar);
    if (*effort == SB_EFFORT_binary64 && wide_binary64(a, b, n, scalar, &rounded))
        return rounded;
    if (*effort != SB_EFFORT_exact && wide_kept(a, b, n, scalar, &rounded)) {
        *effort = SB_EFFORT_compensated;
        return rounded;
    }
    *effort = SB_EFFORT_exact;
    sb_exact sum = wide_sum(a, b, n);
    return sb_exact_round_scaled(&sum, scalar);
}

float sb_dot_wide_slowly(const double *a, const double *b, size_t n, const sb_scalar *scalar)
{
    sb_effort effort = SB_EFFORT_compensated;
    return sb_dot_wide_from(a, b, n, scalar, &effort);
}

float sb_dot_wide(const double *a, const double *b, size_t n, const sb_scalar *scalar)
{
    sb_effort effort = SB_EFFORT_binary64;
    return sb_dot_wide_from(a, b, n, scalar, &effort);
}

static terms terms_of_row(const sb_matrix *matrix, uint32_t row, const float *x)
{
    return (terms){.codes = sb_matrix_row_bytes(matrix, row),
                   .format = matrix->format,
                   .b = x,
                   .stride_b = 1,
                   .n = matrix->cols};
}

float sb_dot_row(const sb_matrix *matrix, uint32_t row, const float *x)
{
    const terms t = terms_of_row(matrix, row, x);
    sb_partial partial;
    float rounded;
    if (sb_dot_kernels_now()->bf16 && matrix->format == SB_FORMAT_bf16)
        partial = sb_dot_kernels_now()->bf16(t.codes, x, t.n);
    else if (sb_dot_kernels_now()->f16 && matrix->format == SB_FORMAT_f16)
        partial = sb_dot_kernels_now()->f16(t.codes, x, t.n);
    else
        return reduce_pieces(&t);
    return sb_round_certain(partial, t.n, &rounded) ? rounded : settle_reduction(&t);
}

/* fp8_fast.c - sums over many E4M3 codes at once, and the test whether they are certainly nearest
 * ones. */
#include <string.h>

#include "ref/base/bytes.h"
#include "tools/check/scan/fp8.h"

enum { GROUP = SB_FP8_GROUP, LANES = SB_FP8_LANES, PART = LANES / 2 };

/* The values. The bits of a code are read as the bits of an F16. A subnormal code is given an
 * implicit one, which is subtracted again. */
static void decode(const unsigned char *codes, float *values)
{
    uint32_t bits[GROUP], least[GROUP], sign[GROUP];
    float more[GROUP];
#pragma omp simd
    for (unsigned i = 0; i < GROUP; i++) {
        uint32_t magnitude = codes[i] & 0x7fu, subnormal = magnitude < 8 ? 1u << 23 : 0;
        sign[i] = (uint32_t)(codes[i] & 0x80u) << 24;
        bits[i] = (magnitude << 20) + (112u << 23) + subnormal;
        least[i] = subnormal ? 113u << 23 : 0;
    }
    memcpy(values, bits, sizeof bits);
    memcpy(more, least, sizeof least);
    for (unsigned i = 0; i < GROUP; i++)
        values[i] -= more[i];
    memcpy(bits, values, sizeof bits);
#pragma omp simd
    for (unsigned i = 0; i < GROUP; i++)
        bits[i] |= sign[i];
    memcpy(values, bits, sizeof bits);
}

/* Sums of a piece by lane; `fours`: sums of more than a piece, by lane modulo 4. */
typedef struct lanes {
    float sum[LANES], sum2[LANES], sum4[LANES], error2[LANES], master2[LANES];
} lanes;

typedef struct fours {
    double sum[4], sum2[4], sum4[4], error2[4], master2[4];
} fours;

/* The first lane for column i: the first half of a group goes to the first half of the lanes. */
static unsigned lanes_from(unsigned i)
{
    return i < GROUP / 2 ? 0 : PART;
}

static void add_values(const float *values, int shape, lanes *l)
{
    for (unsigned i = 0; i < GROUP; i += PART) {
        const unsigned to = lanes_from(i);
        for (unsigned j = 0; j < PART; j++) {
            float v = values[i + j], square = v * v;
            l->sum2[to + j] += square;
            if (!shape)
                continue;
            l->sum[to + j] += v;
            l->sum4[to + j] += square * square;
        }
    }
}

/* V-31: "a fast test in binary32 cannot prove" - where the quotient has the sign of the code, the
 * bits of quotient and value differ as much as their magnitudes. */
static unsigned char add_weights(const float *values, const float *weights, float inverse, lanes *l)
{
    float quotients[GROUP];
    uint32_t t[GROUP], v[GROUP], doubt = 0;
    for (unsigned i = 0; i < GROUP; i += PART) {
        const unsigned to = lanes_from(i);
        for (unsigned j = 0; j < PART; j++) {
            float quotient = weights[i + j] * inverse, error = values[i + j] - quotient;
            quotients[i + j] = quotient;
            l->error2[to + j] += error * error;
            l->master2[to + j] += quotient * quotient;
        }
    }
    memcpy(t, quotients, sizeof t);
    memcpy(v, values, sizeof v);
#pragma omp simd reduction(| : doubt)
    for (unsigned i = 0; i < GROUP; i++)
        doubt |= t[i] - v[i] + SB_FP8_REACH > 2 * SB_FP8_REACH;
    return doubt != 0;
}

/* Copies up to GROUP codes and weights from a column on, and pads them with zeros. */
static unsigned take_group(const sb_fp8_line *x, uint32_t first, uint32_t end, unsigned char *codes,
                           float *weights)
{
    const unsigned count = end - first < GROUP ? end - first : GROUP;
    memset(codes, 0, GROUP);
    memset(weights, 0, GROUP * sizeof *weights);
    memcpy(codes, x->codes + first, count);
    for (unsigned i = 0; i < count && x->weights.bf16; i++)
        weights[i] = sb_f32_from_bits(
            (uint32_t)sb_load_u16(x->weights.bf16 + 2 * ((size_t)first + i)) << 16);
    if (x->weights.values)
        memcpy(weights, x->weights.values + first, count * sizeof *weights);
    return count;
}

/* Returns the number of zeros; raises the largest codes of a run, by column modulo GROUP. */
static unsigned look_at_bytes(const unsigned char *codes, unsigned char *largest)
{
    unsigned zeros = 0;
    for (unsigned i = 0; i < GROUP; i++) {
        unsigned char magnitude = codes[i] & 0x7fu;
        zeros += magnitude == 0;
        largest[i] = magnitude > largest[i] ? magnitude : largest[i];
    }
    return zeros;
}

/* Returns 1 if there is a NaN code. */
static int end_tops(const unsigned char *largest, unsigned char *tops)
{
    int nan = 0;
    for (unsigned i = 0; i < GROUP; i++) {
        unsigned char above = (unsigned char)(largest[i] + 1);
        nan |= above == 0x80;
        tops[i] = above < 0x80 && above > tops[i] ? above : tops[i];
    }
    return nan;
}

/* Adds each even lane and the next odd one in binary32. */
static void fold(const float lane[LANES], double four[4])
{
    for (unsigned i = 0; i < 4; i++) {
        float first = lane[2 * i] + lane[2 * i + 1];
        float second = lane[PART + 2 * i] + lane[PART + 2 * i + 1];
        four[i] += (double)first + (double)second;
    }
}

static void end_piece(lanes *l, fours *run)
{
    fold(l->sum, run->sum);
    fold(l->sum2, run->sum2);
    fold(l->sum4, run->sum4);
    fold(l->error2, run->error2);
    fold(l->master2, run->master2);
    *l = (lanes){.sum = {0}};
}

static double all(const double four[4])
{
    return (four[0] + four[2]) + (four[1] + four[3]);
}

static void end_run(const fours *run, double scale, fours *row)
{
    double square = scale * scale;
    for (unsigned i = 0; i < 4; i++) {
        row->sum[i] += run->sum[i] * scale;
        row->sum2[i] += run->sum2[i] * square;
        row->sum4[i] += run->sum4[i] * (square * square);
        row->error2[i] += run->error2[i] * square;
        row->master2[i] += run->master2[i] * square;
    }
}

void sb_fp8_look_plain(const sb_fp8_line *x, sb_fp8_sums *out)
{
    const int with = x->weights.bf16 || x->weights.values;
    unsigned char codes[GROUP], largest[GROUP], *doubts = x->doubts;
    float values[GROUP], weights[GROUP];
    fours row = {{0}, {0}, {0}, {0}, {0}};
    *out = (sb_fp8_sums){.nan = 0};
    for (uint32_t r = 0, first = 0; first < x->cols; r++, first += x->run) {
        const uint32_t end = x->cols - first < x->run ? x->cols : first + x->run;
        fours run = {{0}, {0}, {0}, {0}, {0}};
        lanes l = {{0}, {0}, {0}, {0}, {0}};
        memset(largest, 0, sizeof largest);
        for (uint32_t k = first; k < end; k += GROUP) {
            unsigned count = take_group(x, k, end, codes, weights);
            decode(codes, values);
            out->zeros += look_at_bytes(codes, largest);
            out->zeros -= GROUP - count;
            add_values(values, x->shape, &l);
            if (with)
                out->doubts += *doubts++ = add_weights(values, weights, x->inverses[r], &l);
            if ((k - first) % SB_FP8_PIECE == SB_FP8_PIECE - GROUP)
                end_piece(&l, &run);
        }
        end_piece(&l, &run);
        out->nan |= end_tops(largest, x->tops + (size_t)r * GROUP);
        out->odd |= with && !sb_fp8_holds(all(run.master2));
        end_run(&run, (double)x->scales[r], &row);
    }
    out->sum = all(row.sum);
    out->sum2 = all(row.sum2);
    out->sum4 = all(row.sum4);
    out->error2 = all(row.error2);
    out->master2 = all(row.master2);
}

#if defined(__x86_64__) && defined(__GNUC__)

#include <cpuid.h>

/* Tests the F16C bit itself, because not every compiler knows F16C by name. */
static int has_avx2_f16c(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

/* Detected once: under a hypervisor CPUID takes microseconds. */
sb_fp8_look_fn *sb_fp8_look(void)
{
    static _Atomic int answer = -1; /* threads that detect at the same time store the same value */
    if (answer < 0)
        answer = has_avx2_f16c();
    return answer ? sb_fp8_look_avx2 : sb_fp8_look_plain;
}

#else

sb_fp8_look_fn *sb_fp8_look(void)
{
    return sb_fp8_look_plain;
}

#endif

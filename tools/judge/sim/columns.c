/* columns.c - many sums of products at once. Each output adds in the order of reduce.c; sixteen
 * outputs are computed together, as arrays. */
#include "tools/judge/sim/arith.h"

#include <string.h>

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
#define X86
#endif

enum { WIDE = SB_SIM_COLUMNS };

/* x[0], x[step], ... and the rows of b, which have WIDE values each. */
typedef struct columns {
    const float *x, *b;
    size_t step, stride, n;
} columns;

static inline void add_products(float *restrict sum, float x, const float *restrict b)
{
    for (size_t j = 0; j < WIDE; j++) {
        float product = x * b[j];
        sum[j] = product + sum[j];
    }
}

/* The machine's fused instruction gives the same bits as sb_sim_multiply_add. */
#ifdef X86
#define FUSING __attribute__((target("avx2,fma")))

static int machine_fuses(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

FUSING static void fuse(const columns *c, float (*lane)[WIDE], size_t last)
{
    for (size_t i = 0; i < c->n; i++) {
        float x = c->x[i * c->step], *sum = lane[i & last];
        const float *b = c->b + i * c->stride;
        for (size_t j = 0; j < WIDE; j++)
            sum[j] = __builtin_fmaf(x, b[j], sum[j]);
    }
}
#endif

static void fused_lanes(const sb_sim_arith *s, const columns *c, float (*lane)[WIDE])
{
    size_t last = s->lanes - 1;
#ifdef X86
    if (machine_fuses()) {
        fuse(c, lane, last);
        return;
    }
#endif
    for (size_t i = 0; i < c->n; i++)
        for (size_t j = 0; j < WIDE; j++)
            lane[i & last][j] = sb_sim_multiply_add(s, c->x[i * c->step], c->b[i * c->stride + j],
                                                    lane[i & last][j]);
}

static void lanes(const sb_sim_arith *s, const columns *c, float *out)
{
    float lane[SB_SIM_LANES][WIDE];
    memset(lane, 0, s->lanes * sizeof lane[0]);
    size_t last = s->lanes - 1;
    if (s->fused)
        fused_lanes(s, c, lane);
    else
        for (size_t i = 0; i < c->n; i++)
            add_products(lane[i & last], c->x[i * c->step], c->b + i * c->stride);
    for (unsigned width = s->lanes / 2; width > 0; width /= 2)
        for (unsigned i = 0; i < width; i++)
            for (size_t j = 0; j < WIDE; j++)
                lane[i][j] += lane[i + width][j];
    memcpy(out, lane[0], sizeof lane[0]);
}

/* Without fused operations. */
static void backward(const columns *c, float *out)
{
    float sum[WIDE] = {0.0f};
    for (size_t i = c->n; i-- > 0;)
        add_products(sum, c->x[i * c->step], c->b + i * c->stride);
    memcpy(out, sum, sizeof sum);
}

/* n > 0 */
static void pairwise(const columns *c, float *restrict out)
{
    if (c->n == 1) {
        for (size_t j = 0; j < WIDE; j++)
            out[j] = c->x[0] * c->b[j];
        return;
    }
    float second[WIDE];
    size_t half = (c->n + 1) / 2;
    columns first = *c, rest = *c;
    first.n = half;
    rest.n = c->n - half;
    rest.x += half * c->step;
    rest.b += half * c->stride;
    pairwise(&first, out);
    pairwise(&rest, second);
    for (size_t j = 0; j < WIDE; j++)
        out[j] = out[j] + second[j];
}

static void sixteen(const sb_sim_arith *s, const columns *c, float *out)
{
    if (c->n == 0)
        memset(out, 0, WIDE * sizeof *out);
    else if (s->order == SUM_pairwise)
        pairwise(c, out);
    else if (s->order == SUM_lanes)
        lanes(s, c, out);
    else
        backward(c, out);
}

void sb_sim_dots(const sb_sim_arith *s, const float *x, size_t step, const float *b, size_t stride,
                 size_t n, size_t count, float *out)
{
    size_t j = 0;
    int alone = s->order == SUM_backward && s->fused; /* no sim has both */
    for (; !alone && j + WIDE <= count; j += WIDE)
        sixteen(s, &(columns){x, b + j, step, stride, n}, out + j);
    for (; j < count; j++)
        out[j] = sb_sim_dot(s, x, step, b + j, stride, n);
}

/* Uses sb_sim_product column by column if the matrix unit may take x; else sb_sim_dots. */
void sb_sim_products(const sb_sim_arith *s, const float *x, size_t step, const float *b,
                     size_t stride, size_t n, size_t count, float *out)
{
    if (s->atom == NO_ATOM || (s->form != FORM_any && !sb_sim_all_bf16(x, step, n))) {
        sb_sim_dots(s, x, step, b, stride, n, count, out);
        return;
    }
    for (size_t j = 0; j < count; j++)
        out[j] = sb_sim_product(s, x, step, b + j, stride, n);
}

void sb_sim_multiply_adds(const sb_sim_arith *s, float x, const float *b, float *sum, size_t count)
{
    columns c = {.x = &x, .n = 1};
    size_t j = 0;
    for (; j + WIDE <= count; j += WIDE) {
        c.b = b + j;
        if (s->fused)
            fused_lanes(&(sb_sim_arith){.lanes = 1, .fused = 1}, &c, (float(*)[WIDE])(sum + j));
        else
            add_products(sum + j, x, b + j);
    }
    for (; j < count; j++)
        sum[j] = sb_sim_multiply_add(s, x, b[j], sum[j]);
}

/* cost_cases.h - B-15 for tests: compares the emulator's counts of a call with the traffic that
 * gpu/kernel/cost.def gives for its kernels. Also calls that several tests share. */
#ifndef SB_TESTS_GPU_COST_CASES_H
#define SB_TESTS_GPU_COST_CASES_H

#include <initializer_list>

#include "gpu/emu/count.h"
#include "gpu/kernel/cost.h"
#include "gpu/op/gpu.h"
#include "tests/gpu/gpu_op.h"

class cost_counts
{
  public:
    sb_emu_counts counts = {};
    uint64_t macs[SB_COST_KERNELS] = {}; /* for the shape that was compared last */

    /* The first difference for a call of this shape, which should have launched these kernels and
     * no others; NULL: none. */
    const char *compared(const sb_cost_shape &shape, std::initializer_list<sb_cost_kernel> kernels);

  private:
    sb_cost_buffer all[SB_COST_BUFFERS] = {};
    char text[200] = "";

    void differs(const char *kernel, const char *what, uint64_t is, uint64_t should);
    void differs(const char *kernel, const char *buffer, const char *what, uint64_t is,
                 uint64_t should);
    bool has(sb_cost_kernel kernel, const char *buffer) const;
    void compare(sb_cost_kernel kernel, const char *launched);
};

/* A GPU whose calls are counted. */
class cost_gpu : public cost_counts
{
  public:
    sb_gpu *gpu = nullptr;

    cost_gpu();
    ~cost_gpu();
    cost_gpu(const cost_gpu &) = delete;
    cost_gpu &operator=(const cost_gpu &) = delete;

    /* The same for the last call, which must have returned this status. Clears the counts. */
    const char *compared(const sb_cost_shape &shape, sb_status status,
                         std::initializer_list<sb_cost_kernel> kernels);
    void is(const sb_cost_shape &shape, sb_status status,
            std::initializer_list<sb_cost_kernel> kernels);
};

/* Asserts that each of these kernels has been compared, so that cost.def has no lines for kernels
 * that no longer exist. */
void cost_all_seen(sb_cost_kernel first, sb_cost_kernel end);

/* Asserts that the difference found, `wrong`, contains `why`. */
void cost_expect(const char *wrong, const char *why);

enum { COST_EXPERTS = 8, COST_KEPT = 2 };

/* Experts for the pairs of these rows, from `spread` on each side. The shape gets the number of
 * experts with pairs, and of the sets of their pairs (Y-61). */
void cost_route(size_t rows, unsigned spread, uint32_t *ids, sb_cost_shape *shape);

/* A call of the delta rule, in either form, with 2 key heads and 4 value heads. */
template <class ARGS> sb_cost_shape cost_delta(size_t rows, size_t dk, size_t dv, ARGS *args)
{
    const size_t k_heads = 2, v_heads = 4;
    args->q = bf16_values("q", rows * k_heads * dk, 0.0f, 1.0f);
    args->k = bf16_values("k", rows * k_heads * dk, 0.0f, 1.0f);
    args->v_stride = v_heads * dv + 5;
    args->v = bf16_values("v", rows * args->v_stride, 0.0f, 1.0f);
    args->g = bf16_values("g", rows * v_heads, 0.0f, 1.0f);
    args->beta = bf16_values("beta", rows * v_heads, 0.0f, 1.0f);
    args->rows = rows;
    args->k_heads = k_heads;
    args->v_heads = v_heads;
    args->dk = dk;
    args->dv = dv;
    args->state = bf16_values("state", v_heads * dk * dv, 0.0f, 1.0f);
    args->out = test_output(rows * v_heads * dv);
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.heads = v_heads;
    shape.groups = k_heads;
    shape.key = dk;
    shape.value = dv;
    return shape;
}

#endif

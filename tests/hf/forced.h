/* forced.h - compares a table of ops with a recording. Each op gets the recorded inputs of that op.
 *
 * No result is carried from one check to the next, so that a wrong op fails in its own row and in
 * no other. If a check needs values that were not recorded, the reference computes them. Each
 * element must lie in its derived bound (docs/tolerances.md). */
#ifndef SB_TESTS_HF_FORCED_H
#define SB_TESTS_HF_FORCED_H

#include "tests/hf/fixture.h"
#include "tools/judge/bound/bound.h"

typedef enum forced_op {
#define SB_OP(name, clause) FORCED_##name,
#include "ref/ops/ops.def"
#undef SB_OP
    FORCED_OPS
} forced_op;

/* The results for one op. Ratios are errors in units of their bound: above 1 is a failure. */
typedef struct forced_row {
    size_t checks;
    size_t compared, identical;           /* values of the activation type */
    size_t wide_compared, wide_identical; /* in bfloat16: values that stay binary32 (states, g) */
    size_t open;         /* elements whose bound is not 0; all others must be identical */
    size_t adopted;      /* router: choices that the bound leaves open */
    double apart;        /* the op against the recording, in their common bound */
    double ours;         /* the op against the ball of the reference arithmetic */
    double theirs;       /* the recording against the ball of the library arithmetic */
    unsigned mistrusted; /* checks whose data could not have revealed a fault */
    char first[256];     /* where apart first exceeded 1, or the first mistrusted check */
} forced_row;

typedef struct forced {
    const hf_fixture *fixture;
    const sb_op_table *ops;
    sb_knobs knobs;       /* of the ops: profile exact, or hf for a bfloat16 recording */
    sb_knobs their_knobs; /* profile hf with the type of the recording */
    hf_arena arena;
    sb_status status; /* the first failure of an op or a bound */
    forced_row rows[FORCED_OPS];
} forced;

/* Runs every check of one recording. */
void hf_forced_run(forced *f, const hf_fixture *fixture, const sb_op_table *ops);

const char *forced_op_name(forced_op op);

/* False for the ops that the recorded model does not have. */
int forced_applies(const forced *f, forced_op op);

/* True if the op was compared with trust and every element was within its bound. */
int forced_passed(const forced *f, forced_op op);

/* --- for the checks --------------------------------------------------------------------------- */

/* The recorded rows of a call of `length` tokens. */
typedef struct forced_call {
    size_t length, count;
    const uint32_t *at; /* (count) */
} forced_call;
extern const forced_call forced_calls[2];

/* One output, and the balls that the two arithmetics allow for it. */
typedef struct forced_out {
    float *got;
    sb_ball *ours, *theirs;
    size_t count;
} forced_out;
forced_out forced_room(forced *f, size_t count);

/* The tensor op.LENGTH.LAYER.TAP. An absent one is noted as a failure of the op and gives NULL. */
const sb_tensor *forced_tensor(forced *f, forced_op op, size_t length, unsigned layer,
                               const char *tap);
float *forced_values(forced *f, forced_op op, size_t length, unsigned layer, const char *tap);

/* The chosen rows in consecutive memory. */
float *forced_rows(forced *f, const float *values, size_t size, const forced_call *call);

/* Computes the balls of both arithmetics for the first and second (or NULL) output, then runs the
 * op. The balls come first, because some ops work in place. */
#define FORCED_BOUND(f, op, args, first, second)                                                   \
    do {                                                                                           \
        const forced_out *two = (second);                                                          \
        forced_status((f), sb_bound_##op(&sb_arithmetic_reference, &(f)->knobs, &(args),           \
                                         (first).ours, two ? two->ours : NULL));                   \
        forced_status((f), sb_bound_##op(&sb_arithmetic_library, &(f)->their_knobs, &(args),       \
                                         (first).theirs, two ? two->theirs : NULL));               \
    } while (0)
#define FORCED_RUN(f, op, args) forced_status((f), (f)->ops->op(&(f)->knobs, &(args)))

void forced_status(forced *f, sb_status status);

/* Compares got with the recording, row by row of `size` elements. wide: values that no profile
 * rounds to the activation type. */
void forced_compare(forced *f, forced_op op, const char *tap, const forced_out *out,
                    const float *want, size_t size);
void forced_compare_wide(forced *f, forced_op op, const char *tap, const forced_out *out,
                         const float *want, size_t size);

void hf_forced_fail(forced *f, forced_op op, const char *format, ...) SB_PRINTF(3, 4);

/* The checks for each part of the model. */
void forced_check_gdn(forced *f, const forced_call *call);
void forced_check_heads(forced *f);
void forced_check_attention(forced *f, const forced_call *call);
void forced_check_mlp(forced *f, const forced_call *call);
void forced_check_block(forced *f, const forced_call *call, unsigned layer);
void forced_check_logits(forced *f);

/* One linear layer, one norm or one sum, with all rows recorded. */
void forced_linear(forced *f, const char *tap, const sb_matrix *weight, const float *in,
                   size_t rows, const float *want);
void forced_rmsnorm(forced *f, const char *tap, const sb_matrix *weight, const float *in,
                    size_t rows, const float *want);
void forced_add(forced *f, const char *tap, const float *a, const float *b, size_t count,
                const float *want);

/* True if the recorded model has linear attention layers. */
static inline int forced_linear_attention(const forced *f)
{
    return f->fixture->model->config.lin_v_heads > 0;
}

static inline const sb_layer *forced_layer(const forced *f, unsigned layer)
{
    return &f->fixture->model->weights->layers[layer];
}

#endif

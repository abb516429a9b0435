/* forced.h - a recording against a table of ops, each op fed with what the recording fed its own.
 *
 * Nothing travels from one check to the next, so an op that is wrong fails in its own row and in no
 * other: where a check needs values that nobody recorded, they come from the reference. Each
 * element must lie in its derived bound (docs/tolerances.md). */
#ifndef SB_TESTS_HF_FORCED_H
#define SB_TESTS_HF_FORCED_H

#include "tests/hf/fixture.h"
#include "tools/compare/bound.h"

typedef enum forced_op {
#define SB_OP(name, clause) FORCED_##name,
#include "ref/ops/ops.def"
#undef SB_OP
    FORCED_OPS
} forced_op;

/* What was found about one op. Ratios are errors in units of their bound: above 1 is a failure. */
typedef struct forced_row {
    size_t checks;
    size_t compared, identical;           /* values of the activation type */
    size_t wide_compared, wide_identical; /* in bfloat16: values that stay binary32 (states, g) */
    size_t open;         /* elements whose bound is not 0: the others must be identical */
    size_t adopted;      /* router: choices that the bound leaves open */
    double apart;        /* the op against the recording, in their common bound */
    double ours;         /* the op against the ball of the reference arithmetic */
    double theirs;       /* the recording against the ball of the library arithmetic */
    unsigned mistrusted; /* checks whose data could not have shown a fault */
    char first[256];     /* where apart first exceeded 1, or what was mistrusted */
} forced_row;

typedef struct forced {
    const hf_fixture *fixture;
    const sb_op_table *ops;
    sb_knobs knobs;       /* of the ops: profile exact, or hf for a bfloat16 recording */
    sb_knobs their_knobs; /* profile hf with the type of the recording */
    hf_arena arena;
    sb_status status; /* the first that an op or a bound returned */
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

/* The rows of a call that were recorded, for the call of `length` tokens. */
typedef struct forced_call {
    size_t length, count;
    const uint32_t *at; /* (count) */
} forced_call;
extern const forced_call forced_calls[2];

/* Room for what the two arithmetics allow for one output, and for the output itself. */
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

/* Chosen rows, one behind the other. */
float *forced_rows(forced *f, const float *values, size_t size, const forced_call *call);

/* Balls for both arithmetics, first and (or NULL) second output; then the op. The balls come first:
 * some ops work in place. */
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

/* Compares got with the recording, row by row of `size` elements; wide: of values that no profile
 * rounds to the activation type. */
void forced_compare(forced *f, forced_op op, const char *tap, const forced_out *out,
                    const float *want, size_t size);
void forced_compare_wide(forced *f, forced_op op, const char *tap, const forced_out *out,
                         const float *want, size_t size);

void hf_forced_fail(forced *f, forced_op op, const char *format, ...) SB_PRINTF(3, 4);

/* The checks, by the part of the model they are about. */
void forced_check_gdn(forced *f, const forced_call *call);
void forced_check_heads(forced *f);
void forced_check_attention(forced *f, const forced_call *call);
void forced_check_mlp(forced *f, const forced_call *call);
void forced_check_block(forced *f, const forced_call *call, unsigned layer);
void forced_check_logits(forced *f);

/* One linear layer, one norm, one sum: rows that are all recorded. */
void forced_linear(forced *f, const char *tap, const sb_matrix *weight, const float *in,
                   size_t rows, const float *want);
void forced_rmsnorm(forced *f, const char *tap, const sb_matrix *weight, const float *in,
                    size_t rows, const float *want);
void forced_add(forced *f, const char *tap, const float *a, const float *b, size_t count,
                const float *want);

static inline const sb_layer *forced_layer(const forced *f, unsigned layer)
{
    return &f->fixture->model->weights->layers[layer];
}

#endif

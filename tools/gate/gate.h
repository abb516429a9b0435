/* gate.h - test vectors for one operation: what a kernel is given, what it must give, and how far a
 * correct one may be from it.
 *
 * A case is one operation on one set of inputs, a pure function of (op, format, shape, regime,
 * seed). It lives in a safetensors file (docs/gates.md): `samebit vectors` writes it, `samebit
 * judge` holds the output of a kernel against it, and nothing but the file is needed for that: all
 * that is expected is computed again from its inputs. */
#ifndef SB_GATE_GATE_H
#define SB_GATE_GATE_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/container/dtype.h"
#include "ref/formats/matrix.h"
#include "ref/ops/op.h"
#include "tools/compare/ball.h"
#include "tools/gate/dd.h"

enum {
    SB_GATE_RANK = 5,
    SB_GATE_ARRAYS = 32, /* inputs of a case */
    SB_GATE_OUTPUTS = 3,
    SB_GATE_PARAMS = 12, /* numbers that make a shape */
    SB_GATE_NAME = 40
};

/* The regimes of inputs, one per row of regimes.def. */
typedef enum sb_gate_regime {
#define SB_GATE_REGIME(id, name, help) SB_GATE_REGIME_##id,
#include "tools/gate/regimes.def"
#undef SB_GATE_REGIME
    SB_GATE_REGIMES
} sb_gate_regime;
const char *sb_gate_regime_name(sb_gate_regime regime);
const char *sb_gate_regime_help(sb_gate_regime regime);
sb_status sb_gate_regime_find(const char *name, sb_gate_regime *out, sb_error *err);

/* An input, as the kernel gets it: dense, row-major, little-endian. In the file it is "in.NAME". */
typedef struct sb_gate_array {
    char name[SB_GATE_NAME];
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[SB_GATE_RANK];
    const char *axes; /* their names, "row,head,column"; static text */
    unsigned char *data;
    uint64_t bytes;
} sb_gate_array;

/* VALUES lie within a bound of the real value. CHOICES (codes, ids, tokens) are whole numbers; each
 * is the one that the exact profile gives, or one that the bound leaves open (sb_gate_op.open). */
typedef enum sb_gate_kind { SB_GATE_VALUES, SB_GATE_CHOICES } sb_gate_kind;

/* What is expected of one output. The first is `out` and has the name ""; another NAME is
 * "out.NAME" in the file that is judged. */
typedef struct sb_gate_output {
    const char *name;
    sb_gate_kind kind;
    unsigned rank;
    uint64_t shape[SB_GATE_RANK];
    const char *axes;
    size_t count;
    int distinct; /* of CHOICES: none stands twice along the last axis */
    sb_dd *real; /* the mathematics of the whole op on the inputs, unrounded; of CHOICES as exact */
    float *exact; /* profile exact: the correctly rounded value at each rounding point */
} sb_gate_output;

/* What a kernel may do: the arithmetic of its sums and functions, and what it rounds in between. */
typedef struct sb_gate_arith {
    char name[64];    /* "bf16_mma:cuda_fast+bf16" */
    sb_arithmetic ar; /* tools/compare/ball.h */
    sb_knobs knobs;   /* its rounding points */
    int exact;        /* every bit is expected */
} sb_gate_arith;

typedef struct sb_gate_op sb_gate_op;

typedef struct sb_gate_case {
    const sb_gate_op *op;
    const char *format; /* of quantized weights: a row of ops' lists; "" where the op has none */
    sb_dtype input;     /* of activations: BF16 (default), F32, F16 */
    sb_gate_regime regime;
    uint64_t seed;
    uint64_t size[SB_GATE_PARAMS]; /* values of op->params */
    sb_gate_array array[SB_GATE_ARRAYS];
    size_t arrays;
    sb_gate_output output[SB_GATE_OUTPUTS];
    size_t outputs;
} sb_gate_case;

/* --- what a case is made of ---------------------------------------------------------------------
 */

typedef enum sb_gate_role {
    SB_GATE_ACTIVATION,  /* order 1 */
    SB_GATE_WEIGHT,      /* order cols^-1/2 */
    SB_GATE_NORM_WEIGHT, /* order 0.2 around 0 */
    SB_GATE_LOGIT,       /* order 1, wider */
    SB_GATE_STATE        /* order 0.1; normal in every regime but zeros */
} sb_gate_role;

typedef enum sb_gate_typing {
    SB_GATE_INPUT_TYPE, /* made in the type of the inputs; a file may have any type; finite */
    SB_GATE_TYPED,      /* the type of the inputs, also in a file */
    SB_GATE_F32_MADE,   /* made in binary32; a file may have any type; finite */
    SB_GATE_F32         /* binary32, also in a file; finite */
} sb_gate_typing;

/* An input or an output, as the op lists it; its shape has as many numbers as it has axes. */
typedef struct sb_gate_member {
    const char *name, *axes;
    uint64_t shape[SB_GATE_RANK];
    sb_gate_role role; /* what follows is of inputs */
    sb_gate_typing typing;
    int normal;            /* drawn as in regime normal, whatever that of the case is */
    uint64_t finite;       /* only so many, the first ones, have to be finite; 0: all */
    int choices, distinct; /* of outputs: CHOICES, of which none stands twice along the last axis */
} sb_gate_member;

enum { SB_GATE_MEMBERS = 8 };

/* In the order of the file. The input "" stands for what sb_gate_op.add adds, which is behind all
 * others where there is none of that name. */
typedef struct sb_gate_list {
    sb_gate_member input[SB_GATE_MEMBERS], output[SB_GATE_OUTPUTS];
} sb_gate_list;

/* A number that makes the shape. */
typedef struct sb_gate_param {
    const char *name; /* "rows", "k" */
    uint64_t value, least, most;
    const char *help;
} sb_gate_param;

/* One kind of case. All functions return SB_OK, SB_ERR_MEMORY, or what sb_fail gave. */
struct sb_gate_op {
    const char *name, *clause, *what;
    const sb_gate_param *params;
    size_t param_count;
    const char *const *formats; /* NULL-terminated: the first is the default; NULL: none */
    const char *const *shapes; /* NULL-terminated texts like "rows=63": where kernels have bounds */
    const char *not_regimes;   /* "huge tiny": excluded by the contract of the op; or NULL */
    const sb_op *uses;         /* the ops of ops.def it is made of: their mistakes are planted */
    size_t use_count;

    /* Whether the parameters fit each other; NULL: always. */
    sb_status (*check)(const sb_gate_case *c, sb_error *err);
    /* From this list come what is drawn, what a file is asked for, and what is expected. */
    sb_gate_list (*list)(const sb_gate_case *c);
    /* Changes what was drawn, x[i] of list.input[i]; NULL: nothing. */
    void (*adapt)(const sb_gate_case *c, float *const x[]);
    /* Adds inputs that are not drawn; and says what is wrong with those of a file, or with values
     * that the list has. NULL: nothing. */
    sb_status (*add)(sb_gate_case *c, sb_error *err);
    sb_status (*need)(const sb_gate_case *c, sb_error *err);
    /* The values under the knobs, by the ops of a table: out[i] has output[i].count. Here as in
     * what follows in[i] has the values of list.input[i], which may be written to. */
    sb_status (*exact)(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                       const sb_op_table *ops, float *const out[]);
    /* The mathematics, in double-double. */
    sb_status (*real)(const sb_gate_case *c, float *const in[], sb_dd *const out[]);
    /* Where a correct kernel's values lie. */
    sb_status (*bound)(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                       sb_ball *const out[]);
    /* Whether choice `got` in element i of an output is as right as the exact one; NULL: never. */
    int (*open)(const sb_gate_case *c, const sb_gate_arith *ar, size_t output, size_t i,
                double got);
    /* Whether choices that are open one by one may stand together along the last axis of an output,
     * from element `first` on; NULL: always. */
    int (*together)(const sb_gate_case *c, const sb_gate_arith *ar, size_t output, size_t first,
                    const double *got);

    /* For tools/gate/meta.h. Inputs whose axis 0 is the rows that the parameter "rows" counts, as
     * "x,z"; NULL: nothing is known of rows. */
    const char *row_arrays;
    int rows_independent; /* no row of an output depends on another row of the inputs */
    /* Of a sequence of rows: the input that is its state before and the output that is its state
     * behind, and at which multiple of rows it may be cut without a bit changing (0: nowhere). */
    const char *state_input, *state_output;
    uint64_t cut;
    /* Makes anew what of the inputs follows from rows that have changed places; NULL: nothing. */
    sb_status (*refresh)(sb_gate_case *c);
};

/* The list: one function per row of ops.def gives its sb_gate_op. */
#define SB_GATE_OP(name) const sb_gate_op *sb_gate_op_##name(void);
#include "tools/gate/ops.def"
#undef SB_GATE_OP
size_t sb_gate_op_count(void);
const sb_gate_op *sb_gate_op_at(size_t i);
const sb_gate_op *sb_gate_op_find(const char *name); /* NULL: none of that name */

/* Whether the contract of the op has inputs of this kind. */
int sb_gate_takes(const sb_gate_op *op, sb_gate_regime regime);

/* --- cases ---------------------------------------------------------------------------------- */

typedef struct sb_gate_request {
    const char *op, *format, *shape, *regime; /* NULL: the default; shape is "rows=4,k=256" */
    sb_dtype input;                           /* BF16, F32 or F16 */
    uint64_t seed;
} sb_gate_request;

/* Makes the case and computes what is expected. */
sb_status sb_gate_case_make(const sb_gate_request *request, sb_gate_case **out, sb_error *err);
void sb_gate_case_free(sb_gate_case *c);

/* The balls of all outputs, out[i] has output[i].count; and from them the bound of each element
 * against the real value: |centre - real| + radius, a hundredth more (T-5). */
sb_status sb_gate_bound(const sb_gate_case *c, const sb_gate_arith *ar, size_t output,
                        double *bound, sb_error *err);

/* The shape parameter of that name; the op has it. */
uint64_t sb_gate_size(const sb_gate_case *c, const char *name);

/* What the functions of the op do, with the values of its inputs. */
sb_status sb_gate_exact(const sb_gate_case *c, const sb_knobs *knobs, const sb_op_table *ops,
                        float *const out[]);
sb_status sb_gate_real(const sb_gate_case *c, sb_dd *const out[]);
sb_status sb_gate_balls(const sb_gate_case *c, const sb_gate_arith *ar, sb_ball *const out[]);

/* Adds the inputs of the op and declares its outputs. */
sb_status sb_gate_make(sb_gate_case *c, sb_error *err);
/* Declares the outputs of a case whose inputs come from a file; checks what sb_gate_make would not
 * get wrong: names, types, shapes, ids in range. */
sb_status sb_gate_declare(sb_gate_case *c, sb_error *err);

/* An input by name, NULL if there is none; a new one, zeroed (NULL: memory, or too many). */
const sb_gate_array *sb_gate_input(const sb_gate_case *c, const char *name);
sb_gate_array *sb_gate_add(sb_gate_case *c, const char *name, sb_dtype dtype, const char *axes,
                           unsigned rank, const uint64_t *shape);

/* The same of c->input, with `count` values that the type holds exactly. */
sb_status sb_gate_add_values(sb_gate_case *c, const char *name, const char *axes, unsigned rank,
                             const uint64_t *shape, const float *values);

/* The values of a float input in binary32, as a new array to be freed; NULL if memory is out. An
 * input that is not there, or whose shape is another, is said by sb_gate_need. */
float *sb_gate_values(const sb_gate_case *c, const char *name);
sb_status sb_gate_need(const sb_gate_case *c, const char *name, unsigned rank,
                       const uint64_t *shape, sb_error *err);

/* A bf16, f16 or f32 input as a plain matrix of rows x cols in place. */
sb_matrix sb_gate_matrix(const sb_gate_case *c, const char *name, uint32_t rows, uint32_t cols);

/* --- inputs by regime (draw.c) ------------------------------------------------------------------
 */

/* Fills (rows, cols) values of the regime, a function of seed, name and element, each representable
 * in c->input (STATE: in binary32). */
void sb_gate_draw(const sb_gate_case *c, const char *name, sb_gate_role role, size_t rows,
                  size_t cols, float *values);

/* --- files (file.c)
 * ------------------------------------------------------------------------------- */

/* Writes the case: in.*, real.hi, real.lo, exact, bf16, bound (of `ar`), those of further outputs
 * with ".NAME" behind; metadata says the rest. Temporary file, then renamed. */
sb_status sb_gate_write(const sb_gate_case *c, const sb_gate_arith *ar, const char *path,
                        sb_error *err);

/* Reads it and computes what is expected again; a file whose expected values are not these is
 * refused. *ar is the arithmetic it was written for. */
sb_status sb_gate_read(const char *path, sb_gate_case **out, sb_gate_arith *ar, sb_error *err);

/* --- arithmetics (ariths.c) ----------------------------------------------------------------------
 */

/* "exact", "fp32", "bf16_mma", "fp8_mma", "nvfp4_mma", a name of sb_arithmetic_at, each with
 * "@ROWS" of a chunk of the delta rule (T-87) behind it, ":FUNCTIONS", a name of sb_functions_find,
 * and "+bf16" or "+f16": what stands between the ops is rounded to that type. */
sb_status sb_gate_arith_of(const char *name, sb_gate_arith *out, sb_error *err);
size_t sb_gate_arith_count(void); /* of the table, the tightest first */
sb_status sb_gate_arith_at(size_t i, sb_gate_arith *out);
const char *sb_gate_arith_help(size_t i); /* in words, with its rounding points */

/* --- judgement (judge.c)
 * -------------------------------------------------------------------------- */

typedef struct sb_gate_got {
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[SB_GATE_RANK];
    const unsigned char *data; /* NULL: this output was not given; the first must be */
} sb_gate_got;

/* What was found in one output: numbers of elements. */
typedef struct sb_gate_tally {
    int given;
    size_t count, identical, outside, near_ties;
    size_t unbounded; /* not the bits of exact, and the arithmetic does not bound them */
    size_t nan, infinite, zero, sign; /* of those outside: what they are; sign: right but for it */
    double worst;                     /* as below */
} sb_gate_tally;

typedef struct sb_gate_result {
    int verdict; /* sb_verdict: IDENTICAL, WITHIN, NEAR_TIE, MISTRUSTED or FAIL */
    size_t count, identical, outside, near_ties, unbounded;
    double worst;  /* error / bound, the largest; infinite outside a bound of 0 */
    int has_first; /* something is outside: `first` is the first such element of `output`, and what
                      follows is of it; else of `nearest`, which is the one nearest to its bound */
    size_t output, first, nearest;
    uint64_t index[SB_GATE_RANK];
    double found, expected, bound; /* expected: the real value */
    char words[768];               /* one line for people, axes by name */
    char note[512];                /* what else they should know; or empty */
    sb_gate_tally of[SB_GATE_OUTPUTS];
} sb_gate_result;

/* "row 3, column 17" of an element; index (SB_GATE_RANK) gets the numbers. */
void sb_gate_place(const sb_gate_output *output, size_t element, uint64_t *index, char *text,
                   size_t size);

/* got has c->outputs entries. SB_ERR_INPUT where shapes or types do not fit. */
sb_status sb_gate_judge(const sb_gate_case *c, const sb_gate_arith *ar, const sb_gate_got *got,
                        sb_gate_result *out, sb_error *err);

/* The first row of the table that passes: its number, or sb_gate_arith_count(). */
sb_status sb_gate_infer(const sb_gate_case *c, const sb_gate_got *got, size_t *row,
                        sb_gate_result *out, sb_error *err);

/* Which mistakes these inputs would have shown under the arithmetic: those of the case's ops
 * (tools/fault/lists/mistakes.def), and slips with the outputs, which every op can have. */
typedef struct sb_gate_power {
    size_t planted, caught;
    size_t of_ops, of_ops_caught;   /* of these, the mistakes of ops */
    int zeros_pass;                 /* and nothing_written is not among what was caught */
    char shown[1024], missed[1024]; /* their names, ", " between */
} sb_gate_power;
sb_status sb_gate_power_in(const sb_gate_case *c, const sb_gate_arith *ar, const sb_gate_got *got,
                           sb_gate_power *out, sb_error *err); /* in the outputs that got gives */
sb_status sb_gate_power_of(const sb_gate_case *c, const sb_gate_arith *ar, sb_gate_power *out,
                           sb_error *err); /* of F32 */

/* What passed on inputs that could not have shown a mistake is MISTRUSTED. */
void sb_gate_trust(const sb_gate_case *c, const sb_gate_power *power, sb_gate_result *result);

#endif

/* gate.h - test vectors for one operation: a kernel's inputs, its expected outputs, and how far a
 * correct kernel may be from them.
 *
 * A case is one operation on one set of inputs, a pure function of (op, format, shape, regime,
 * seed). It lives in a safetensors file (docs/gates.md): `samebit vectors` writes the file, and
 * `samebit judge` compares a kernel's output with it. The file suffices for that: `judge`
 * recomputes the expected values from its inputs. */
#ifndef SB_GATE_GATE_H
#define SB_GATE_GATE_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/container/dtype.h"
#include "ref/formats/matrix.h"
#include "ref/ops/op.h"
#include "tools/judge/bound/ball.h"
#include "tools/judge/gate/dd.h"

enum {
    SB_GATE_RANK = 5,
    SB_GATE_ARRAYS = 32, /* most inputs of a case */
    SB_GATE_OUTPUTS = 3,
    SB_GATE_PARAMS = 12, /* most parameters of a shape */
    SB_GATE_NAME = 40
};

/* The regimes of inputs, one per row of regimes.def. */
typedef enum sb_gate_regime {
#define SB_GATE_REGIME(id, name, help) SB_GATE_REGIME_##id,
#include "tools/judge/gate/regimes.def"
#undef SB_GATE_REGIME
    SB_GATE_REGIMES
} sb_gate_regime;
const char *sb_gate_regime_name(sb_gate_regime regime);
const char *sb_gate_regime_help(sb_gate_regime regime);
sb_status sb_gate_regime_find(const char *name, sb_gate_regime *out, sb_error *err);

/* An input of the kernel: dense, row-major, little-endian. Its tensor in the file is "in.NAME". */
typedef struct sb_gate_array {
    char name[SB_GATE_NAME];
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[SB_GATE_RANK];
    const char *axes; /* names of the axes, "row,head,column"; static text */
    unsigned char *data;
    uint64_t bytes;
} sb_gate_array;

/* VALUES lie within a bound of the real value. CHOICES (codes, ids, tokens) are whole numbers. A
 * correct one equals the choice of profile exact, or is one that the bound leaves open
 * (sb_gate_op.open). */
typedef enum sb_gate_kind { SB_GATE_VALUES, SB_GATE_CHOICES } sb_gate_kind;

/* The expected values of one output. The first output has the name ""; its tensor in the judged
 * file is `out`. Any other NAME has the tensor "out.NAME". */
typedef struct sb_gate_output {
    const char *name;
    sb_gate_kind kind;
    unsigned rank;
    uint64_t shape[SB_GATE_RANK];
    const char *axes;
    size_t count;
    int distinct; /* of CHOICES: no value occurs twice along the last axis */
    sb_dd *real;  /* the whole op in real numbers, unrounded; for CHOICES the same as `exact` */
    float *exact; /* profile exact: the correctly rounded value at each rounding point */
} sb_gate_output;

/* An arithmetic that a kernel may use: its sums, its functions and its rounding points. */
typedef struct sb_gate_arith {
    char name[64];    /* "bf16_mma:cuda_fast+bf16" */
    sb_arithmetic ar; /* tools/judge/bound/ball.h */
    sb_knobs knobs;   /* its rounding points */
    int exact;        /* all bits have to match */
} sb_gate_arith;

typedef struct sb_gate_op sb_gate_op;

typedef struct sb_gate_case {
    const sb_gate_op *op;
    const char *format; /* of the quantized weights, one of op->formats; "" if the op has none */
    sb_dtype input;     /* type of the activations: BF16 (default), F32, F16 */
    sb_gate_regime regime;
    uint64_t seed;
    uint64_t size[SB_GATE_PARAMS]; /* values of op->params */
    sb_gate_array array[SB_GATE_ARRAYS];
    size_t arrays;
    sb_gate_output output[SB_GATE_OUTPUTS];
    size_t outputs;
} sb_gate_case;

/* --- the parts of a case ---------------------------------------------------------------------- */

typedef enum sb_gate_role {
    SB_GATE_ACTIVATION,  /* order 1 */
    SB_GATE_WEIGHT,      /* order cols^-1/2 */
    SB_GATE_NORM_WEIGHT, /* order 0.2 around 0 */
    SB_GATE_LOGIT,       /* order 1, wider */
    SB_GATE_STATE        /* order 0.1; normal in every regime but zeros */
} sb_gate_role;

typedef enum sb_gate_typing {
    SB_GATE_INPUT_TYPE, /* written in the case's input type; a file may use any type; finite */
    SB_GATE_TYPED,      /* the case's input type, also in a file */
    SB_GATE_F32_MADE,   /* written in binary32; a file may use any type; finite */
    SB_GATE_F32         /* binary32, also in a file; finite */
} sb_gate_typing;

/* An input or an output in the op's list. Its shape has one number per axis. */
typedef struct sb_gate_member {
    const char *name, *axes;
    uint64_t shape[SB_GATE_RANK];
    sb_gate_role role; /* role, typing, normal and finite are for inputs only */
    sb_gate_typing typing;
    int normal;            /* drawn as normal values in every regime */
    uint64_t finite;       /* only the first `finite` values have to be finite; 0: all */
    int choices, distinct; /* for outputs: CHOICES; no value occurs twice along the last axis */
} sb_gate_member;

enum { SB_GATE_MEMBERS = 8 };

/* In the order of the file. An input with the name "" marks the place of the inputs that
 * sb_gate_op.add adds. Without it they come last. */
typedef struct sb_gate_list {
    sb_gate_member input[SB_GATE_MEMBERS], output[SB_GATE_OUTPUTS];
} sb_gate_list;

/* A parameter of the shape. */
typedef struct sb_gate_param {
    const char *name; /* "rows", "k" */
    uint64_t value, least, most;
    const char *help;
} sb_gate_param;

/* One kind of case. All functions return SB_OK, SB_ERR_MEMORY, or the result of sb_fail. */
struct sb_gate_op {
    const char *name, *clause, *what;
    const sb_gate_param *params;
    size_t param_count;
    const char *const *formats; /* NULL-terminated: the first is the default; NULL: none */
    const char *const *shapes;  /* NULL-terminated: sizes at the limits of kernels, "rows=63" */
    const char *not_regimes;    /* "huge tiny": the contract of the op excludes them; or NULL */
    const sb_op *uses;          /* its ops of ref/ops/ops.def: their mistakes are planted */
    size_t use_count;

    /* Checks that the parameters fit each other; NULL: they always do. */
    sb_status (*check)(const sb_gate_case *c, sb_error *err);
    /* The inputs that are drawn, or required from a file, and the expected outputs. */
    sb_gate_list (*list)(const sb_gate_case *c);
    /* Changes the drawn values, x[i] of list.input[i]; NULL: changes nothing. */
    void (*adapt)(const sb_gate_case *c, float *const x[]);
    /* add appends the inputs that are not drawn. need checks these inputs in a case from a file,
     * and the values of the listed inputs. Both may be NULL. */
    sb_status (*add)(sb_gate_case *c, sb_error *err);
    sb_status (*need)(const sb_gate_case *c, sb_error *err);
    /* The values under the knobs, computed by the ops of a table; out[i] has output[i].count of
     * them. Here and below in[i] holds the values of list.input[i]; the function may overwrite
     * them. */
    sb_status (*exact)(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                       const sb_op_table *ops, float *const out[]);
    /* The real values, in double-double. */
    sb_status (*real)(const sb_gate_case *c, float *const in[], sb_dd *const out[]);
    /* The balls that contain a correct kernel's values. */
    sb_status (*bound)(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                       sb_ball *const out[]);
    /* True if choice `got` in element i of an output is as right as the exact one; NULL: never. */
    int (*open)(const sb_gate_case *c, const sb_gate_arith *ar, size_t output, size_t i,
                double got);
    /* True if choices, each of them open on its own, are also possible together along the last axis
     * of an output, from element `first` on; NULL: always. */
    int (*together)(const sb_gate_case *c, const sb_gate_arith *ar, size_t output, size_t first,
                    const double *got);

    /* For tools/judge/gate/meta.h: the inputs whose axis 0 has "rows" elements, as "x,z"; NULL: the
     * rows are unknown. */
    const char *row_arrays;
    int rows_independent; /* no row of an output depends on another row of the inputs */
    /* If the rows are a sequence: the input with the state before it, the output with the state
     * after it. The sequence may be split at every multiple of `cut` rows without changing a bit
     * (0: nowhere). */
    const char *state_input, *state_output;
    uint64_t cut;
    /* Recomputes the inputs that depend on the order of the rows; NULL: there are none. */
    sb_status (*refresh)(sb_gate_case *c);
};

/* The list: one function per row of ops.def returns its sb_gate_op. */
#define SB_GATE_OP(name) const sb_gate_op *sb_gate_op_##name(void);
#include "tools/judge/gate/ops.def"
#undef SB_GATE_OP
size_t sb_gate_op_count(void);
const sb_gate_op *sb_gate_op_at(size_t i);
const sb_gate_op *sb_gate_op_find(const char *name); /* NULL: none of that name */

/* True if the contract of the op allows inputs of this regime. */
int sb_gate_takes(const sb_gate_op *op, sb_gate_regime regime);

/* --- cases ------------------------------------------------------------------------------------ */

typedef struct sb_gate_request {
    const char *op, *format, *shape, *regime; /* NULL: the default; shape is "rows=4,k=256" */
    sb_dtype input;                           /* BF16, F32 or F16 */
    uint64_t seed;
} sb_gate_request;

/* Makes the case and computes its expected values. */
sb_status sb_gate_case_make(const sb_gate_request *request, sb_gate_case **out, sb_error *err);
void sb_gate_case_free(sb_gate_case *c);

/* The bound of each element of one output against the real value: |centre - real| + radius of its
 * ball, plus one percent (T-5). */
sb_status sb_gate_bound(const sb_gate_case *c, const sb_gate_arith *ar, size_t output,
                        double *bound, sb_error *err);

/* The shape parameter of that name; the op has it. */
uint64_t sb_gate_size(const sb_gate_case *c, const char *name);

/* These call the functions of the op with the values of the case's inputs; out[i] has
 * output[i].count elements. */
sb_status sb_gate_exact(const sb_gate_case *c, const sb_knobs *knobs, const sb_op_table *ops,
                        float *const out[]);
sb_status sb_gate_real(const sb_gate_case *c, sb_dd *const out[]);
sb_status sb_gate_balls(const sb_gate_case *c, const sb_gate_arith *ar, sb_ball *const out[]);

/* Adds the inputs of the op and declares its outputs. */
sb_status sb_gate_make(sb_gate_case *c, sb_error *err);
/* Declares the outputs of a case whose inputs come from a file. Checks what sb_gate_make always
 * gets right: names, types, shapes, ids in range. */
sb_status sb_gate_declare(sb_gate_case *c, sb_error *err);

/* sb_gate_input returns an input by name, NULL if there is none. sb_gate_add returns a new, zeroed
 * input, NULL if memory is out or there are too many. */
const sb_gate_array *sb_gate_input(const sb_gate_case *c, const char *name);
sb_gate_array *sb_gate_add(sb_gate_case *c, const char *name, sb_dtype dtype, const char *axes,
                           unsigned rank, const uint64_t *shape);

/* Adds an input of type c->input with these values, which the type holds exactly. */
sb_status sb_gate_add_values(sb_gate_case *c, const char *name, const char *axes, unsigned rank,
                             const uint64_t *shape, const float *values);

/* sb_gate_values returns the values of a float input in binary32 as a new array, which the caller
 * frees; NULL if memory is out. sb_gate_need fails if the input is missing or has another shape. */
float *sb_gate_values(const sb_gate_case *c, const char *name);
sb_status sb_gate_need(const sb_gate_case *c, const char *name, unsigned rank,
                       const uint64_t *shape, sb_error *err);

/* A bf16, f16 or f32 input as a plain matrix of rows x cols, not copied. */
sb_matrix sb_gate_matrix(const sb_gate_case *c, const char *name, uint32_t rows, uint32_t cols);

/* --- inputs by regime (draw.c) ---------------------------------------------------------------- */

/* Fills (rows, cols) values of the regime: a function of seed, name and element. Each value is
 * representable in c->input (STATE: in binary32). */
void sb_gate_draw(const sb_gate_case *c, const char *name, sb_gate_role role, size_t rows,
                  size_t cols, float *values);

/* --- files (file.c) --------------------------------------------------------------------------- */

/* Writes the case: in.*, real.hi, real.lo, exact, bf16, bound (of `ar`). Tensors of further outputs
 * end with ".NAME". The metadata hold the rest. Writes a temporary file and renames it. */
sb_status sb_gate_write(const sb_gate_case *c, const sb_gate_arith *ar, const char *path,
                        sb_error *err);

/* Reads the file and recomputes the expected values; refuses a file with other expected values. *ar
 * is the arithmetic that the file was written for. */
sb_status sb_gate_read(const char *path, sb_gate_case **out, sb_gate_arith *ar, sb_error *err);

/* --- arithmetics (ariths.c) ------------------------------------------------------------------- */

/* UNIT[@ROWS][:FUNCTIONS][+bf16|+f16]. UNIT is "exact", "fp32", "bf16_mma", "fp8_mma", "nvfp4_mma"
 * or a name of sb_arithmetic_at; ROWS is the chunk of the delta rule (T-87); FUNCTIONS is a name of
 * sb_functions_find. With the suffix, values between the ops are rounded to that type. */
sb_status sb_gate_arith_of(const char *name, sb_gate_arith *out, sb_error *err);
size_t sb_gate_arith_count(void); /* rows of the table, the tightest first */
sb_status sb_gate_arith_at(size_t i, sb_gate_arith *out);
const char *sb_gate_arith_help(size_t i); /* one line, with the rounding points */

/* --- judgement (judge.c) ---------------------------------------------------------------------- */

typedef struct sb_gate_got {
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[SB_GATE_RANK];
    const unsigned char *data; /* NULL: this output was not given; the first output must be given */
} sb_gate_got;

/* Counts of elements in one output. */
typedef struct sb_gate_tally {
    int given;
    size_t count, identical, outside, near_ties;
    size_t unbounded; /* differ from `exact`, and the arithmetic does not bound them */
    size_t nan, infinite, zero, sign; /* kinds of those outside; sign: right except for the sign */
    double worst;                     /* as in sb_gate_result */
} sb_gate_tally;

typedef struct sb_gate_result {
    int verdict; /* sb_verdict: IDENTICAL, WITHIN, NEAR_TIE, MISTRUSTED or FAIL */
    size_t count, identical, outside, near_ties, unbounded;
    double worst;  /* the largest error / bound; infinite for an error where the bound is 0 */
    int has_first; /* 1: `first` is the first element of `output` that is outside; index, found,
                      expected and bound are about it. 0: they are about `nearest`, the element
                      nearest to its bound */
    size_t output, first, nearest;
    uint64_t index[SB_GATE_RANK];
    double found, expected, bound; /* expected: the real value */
    char words[768];               /* one line for the user, with the names of the axes */
    char note[512];                /* a further note for the user; or empty */
    sb_gate_tally of[SB_GATE_OUTPUTS];
} sb_gate_result;

/* Writes the place of an element as text, "row 3, column 17", and as numbers, index
 * (SB_GATE_RANK). */
void sb_gate_place(const sb_gate_output *output, size_t element, uint64_t *index, char *text,
                   size_t size);

/* got has c->outputs entries. SB_ERR_INPUT where shapes or types do not fit. */
sb_status sb_gate_judge(const sb_gate_case *c, const sb_gate_arith *ar, const sb_gate_got *got,
                        sb_gate_result *out, sb_error *err);

/* *row: the first row of the table under which `got` passes, or sb_gate_arith_count(). */
sb_status sb_gate_infer(const sb_gate_case *c, const sb_gate_got *got, size_t *row,
                        sb_gate_result *out, sb_error *err);

/* The mistakes that these inputs would have revealed under the arithmetic: mistakes of the case's
 * ops (tools/judge/fault/lists/mistakes.def), and mistakes in writing the outputs, which every op
 * can have. */
typedef struct sb_gate_power {
    size_t planted, caught;
    size_t of_ops, of_ops_caught;   /* the part of them that are mistakes of ops */
    int zeros_pass;                 /* 1: the mistake nothing_written was not caught */
    char shown[1024], missed[1024]; /* their names, ", " between */
} sb_gate_power;
sb_status sb_gate_power_in(const sb_gate_case *c, const sb_gate_arith *ar, const sb_gate_got *got,
                           sb_gate_power *out, sb_error *err); /* in the outputs that `got` has */
sb_status sb_gate_power_of(const sb_gate_case *c, const sb_gate_arith *ar, sb_gate_power *out,
                           sb_error *err); /* in all outputs, as F32 */

/* Changes a passing verdict to MISTRUSTED if the inputs could not have revealed a mistake. */
void sb_gate_trust(const sb_gate_case *c, const sb_gate_power *power, sb_gate_result *result);

#endif

/* samebit.h - the C interface of samebit, a deterministic reference implementation of the Qwen3.5 /
 * Qwen3.6 / Qwen3-Next models and a judge of other people's kernels. docs/gates/api.md introduces
 * it.
 *
 * Errors. A function that can fail returns a samebit_status; 0 is success. Its last argument
 * receives one line of text that says what was found and what was expected (NULL: not wanted). The
 * text is written on failure only. On failure *out stays unchanged. The library prints nothing and
 * never ends the process.
 *
 * Ownership. Handles are opaque. The caller owns them and frees each with its _free or _close
 * function, which accepts NULL. Handles may be freed in any order. Texts and arrays that are read
 * from a handle stay valid until the handle is freed or changed. The library copies every argument
 * that it keeps.
 *
 * Threads. There is no global state that a caller could see. Different threads may use different
 * handles at the same time. They may also share one checkpoint, one state or one case, because
 * these never change. A session may be used by one thread at a time. A call computes on the number
 * of threads that its options name. It uses fewer if the system does not start more, and only its
 * own thread while another call of the process has the threads. The number of threads never changes
 * a bit. A call after a fork() starts threads of its own.
 *
 * Numbers. Arrays are dense, row-major and little-endian; float is binary32. A call sets the
 * floating-point mode of the calling thread (its rounding, its flushing of subnormals) to the
 * default and restores it at its end. Callbacks run in the default mode.
 *
 * Stability. Structs whose first member is `size` may grow at their end: before the call, set
 * `size` to sizeof the struct and the rest to 0. Lists that are read by index may grow. Everything
 * else stays the same as long as the library is libsamebit.so.0. */
#ifndef SAMEBIT_H
#define SAMEBIT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SAMEBIT_API __attribute__((visibility("default")))
#else
#define SAMEBIT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --- errors and version ----------------------------------------------------------------------- */

/* The values are the exit statuses of the program `samebit`. */
typedef enum samebit_status {
    SAMEBIT_OK = 0,
    SAMEBIT_FAIL = 1,    /* a comparison failed: an output is outside its bound */
    SAMEBIT_USAGE = 2,   /* the call is invalid: an argument, a name, a length */
    SAMEBIT_REFUSED = 3, /* a file is damaged or of another kind, memory or a system call failed, or
                            a number left the domain of the model */
    SAMEBIT_MISTRUSTED = 4 /* the comparison could not have shown a fault */
} samebit_status;

/* One line of text that ends with a NUL. */
typedef struct samebit_error {
    char text[1024];
} samebit_error;

/* XXH3-128 as 32 lower-case hexadecimal digits and a NUL. The digest of a float array is that of
 * its bytes. */
typedef struct samebit_digest {
    char hex[33];
} samebit_digest;

#define SAMEBIT_VERSION "0.1.0"

/* The version of the loaded library, which is SAMEBIT_VERSION of its own header; and the version of
 * the specification (docs/spec.md) that it implements. Results of one specification version never
 * change. */
SAMEBIT_API const char *samebit_version(void);
SAMEBIT_API unsigned samebit_spec_version(void);

/* The digest of `count` values, as `samebit run` prints it for logits. */
SAMEBIT_API samebit_status samebit_digest_f32(const float *values, size_t count,
                                              samebit_digest *out, samebit_error *err);

/* --- arrays ----------------------------------------------------------------------------------- */

enum { SAMEBIT_RANK = 8 };

/* A view of an array that is owned elsewhere. */
typedef struct samebit_array {
    const char *name;  /* "in.x", "layers.0.conv_state", "out" */
    const char *dtype; /* as in safetensors: "F32", "BF16", "F8_E4M3", "U8", "I32", "F64" */
    const char *axes;  /* names of the dimensions, "row,head,column"; NULL: unknown */
    uint32_t rank;     /* 0 .. SAMEBIT_RANK; 0: one element */
    uint64_t shape[SAMEBIT_RANK];
    const void *data; /* NULL: shape and type only */
    uint64_t bytes;
} samebit_array;

/* --- checkpoints ------------------------------------------------------------------------------ */

/* A folder with config.json and safetensors files. The files are mapped, and each tensor is bound
 * to its role. Immutable. */
typedef struct samebit_checkpoint samebit_checkpoint;

/* Opens a folder. Each overlay "PATTERN=FOLDER" replaces modules by those of another folder, in the
 * order of the list (`samebit run --overlay`). overlays may be NULL if overlay_count is 0. */
SAMEBIT_API samebit_status samebit_checkpoint_open(const char *folder, const char *const *overlays,
                                                   size_t overlay_count, samebit_checkpoint **out,
                                                   samebit_error *err);
SAMEBIT_API void samebit_checkpoint_close(samebit_checkpoint *checkpoint);

/* Sets the most bytes of weights that stay in memory; 0: no limit. Never changes a bit. */
SAMEBIT_API samebit_status samebit_checkpoint_resident_limit(samebit_checkpoint *checkpoint,
                                                             uint64_t bytes, samebit_error *err);

/* Reads a number of the configuration by its name: "hidden_size", "layers", "vocab_size", "heads",
 * "kv_heads", "head_dim", "experts", "has_mtp", ... samebit_config_name(i) lists the names, i <
 * samebit_config_count(). */
SAMEBIT_API size_t samebit_config_count(void);
SAMEBIT_API const char *samebit_config_name(size_t i);
SAMEBIT_API samebit_status samebit_checkpoint_config(const samebit_checkpoint *checkpoint,
                                                     const char *name, double *out,
                                                     samebit_error *err);

/* The model_type, "qwen3_5_moe"; and the architecture, "" if the file has none. */
SAMEBIT_API const char *samebit_checkpoint_family(const samebit_checkpoint *checkpoint);
SAMEBIT_API const char *samebit_checkpoint_architecture(const samebit_checkpoint *checkpoint);

/* 1 if the layer has full attention; 0 if it has linear attention or does not exist. */
SAMEBIT_API int samebit_checkpoint_is_full(const samebit_checkpoint *checkpoint, uint32_t layer);

/* Storage form i < samebit_storage_count() of linear layers: its name ("nvfp4-ct"), its layers and
 * its bytes. Every expert counts as a layer. Many forms have no layers. */
SAMEBIT_API size_t samebit_storage_count(void);
SAMEBIT_API samebit_status samebit_checkpoint_storage(const samebit_checkpoint *checkpoint,
                                                      size_t i, const char **name, uint64_t *layers,
                                                      uint64_t *bytes, samebit_error *err);

/* The tensors as stored in the files, sorted by name. data points into the mapped file and need not
 * be aligned. find returns SAMEBIT_USAGE if no tensor has that name. */
SAMEBIT_API size_t samebit_checkpoint_tensors(const samebit_checkpoint *checkpoint);
SAMEBIT_API samebit_status samebit_checkpoint_tensor(const samebit_checkpoint *checkpoint, size_t i,
                                                     samebit_array *out, samebit_error *err);
SAMEBIT_API samebit_status samebit_checkpoint_find(const samebit_checkpoint *checkpoint,
                                                   const char *name, samebit_array *out,
                                                   samebit_error *err);

/* The digest of names, types, shapes and bytes of all tensors (`samebit hash`). The first call
 * reads all of them. */
SAMEBIT_API samebit_status samebit_checkpoint_digest(samebit_checkpoint *checkpoint,
                                                     samebit_digest *out, samebit_error *err);

/* --- profiles --------------------------------------------------------------------------------- */

/* Named tables of rounding points and forms (docs/profiles.md), i < samebit_profile_count(). */
SAMEBIT_API size_t samebit_profile_count(void);
SAMEBIT_API const char *samebit_profile_name(size_t i);
SAMEBIT_API const char *samebit_profile_help(size_t i);

/* --- sessions --------------------------------------------------------------------------------- */

/* One token sequence in one model. */
typedef struct samebit_session samebit_session;

/* Called after every intermediate value of a call, by the thread that calls the session. name:
 * "layers.3.linear_attn.core_out", for example (docs/trace.md). data is (rows, cols); the model
 * continues with values that the tap writes there. A nonzero return value ends the call, which then
 * returns SAMEBIT_USAGE. */
typedef int (*samebit_tap)(void *ctx, const char *name, float *data, size_t rows, size_t cols);

/* How a verify is undone. */
typedef enum samebit_rollback {
    SAMEBIT_ROLLBACK_AUTO = 0,  /* snapshots if the profile has row states, else replay */
    SAMEBIT_ROLLBACK_SNAPSHOTS, /* the state after each row is kept */
    SAMEBIT_ROLLBACK_REPLAY     /* the state before the call is kept, and rows are fed again */
} samebit_rollback;

/* All members after `size` 0: profile exact, all threads, no MTP head, greedy. */
typedef struct samebit_session_options {
    size_t size;
    const char *profile;         /* NULL: "exact" */
    const char *const *settings; /* single knobs set after the profile, "beta=act" */
    size_t setting_count;
    unsigned threads; /* 0: as many as the process may keep busy */
    int mtp;          /* 1: feed the MTP head, too; the checkpoint must have one */
    samebit_tap tap;  /* NULL: none */
    void *tap_ctx;
    samebit_rollback rollback;
    /* How tokens are chosen (section P of docs/spec.md). */
    float temperature; /* 0: greedy, ties to the lowest id */
    uint32_t top_k;    /* 0: all */
    float top_p;       /* 0 or 1: all */
    float min_p;       /* 0: all */
    uint64_t seed, sequence;
    int residual; /* 1: drafts are accepted by the ratio of distributions (P-13), not by equality */
} samebit_session_options;

/* options NULL: all 0. */
SAMEBIT_API samebit_status samebit_session_new(samebit_checkpoint *checkpoint,
                                               const samebit_session_options *options,
                                               samebit_session **out, samebit_error *err);
SAMEBIT_API void samebit_session_free(samebit_session *session);

/* Feeds n >= 1 tokens in one call. In profile exact any split of a sequence into calls gives the
 * same bits. After a failure the session accepts only reset, load and set_state. */
SAMEBIT_API samebit_status samebit_session_feed(samebit_session *session, const uint32_t *tokens,
                                                size_t n, samebit_error *err);

/* Feeds tokens as samebit_session_feed does, in a call that can be cut: samebit_session_keep keeps
 * the first `kept` of its n rows, as if only these had been fed. One keep per verify. */
SAMEBIT_API samebit_status samebit_session_verify(samebit_session *session, const uint32_t *tokens,
                                                  size_t n, samebit_error *err);
SAMEBIT_API samebit_status samebit_session_keep(samebit_session *session, size_t kept,
                                                samebit_error *err);

/* One step of the MTP head after the fed tokens (docs/mtp.md). logits (vocab_size) predict the
 * token after `token`. The first step after a feed or keep pairs `token` with the last hidden
 * vector of the model, each further step with the head's own output. The state does not change. */
SAMEBIT_API samebit_status samebit_session_draft(samebit_session *session, uint32_t token,
                                                 float *logits, samebit_error *err);

/* The number of rows of the last call. Their logits (count, vocab_size) and their hidden vectors
 * after the final norm (count, hidden_size), from `row` on, are written into the caller's
 * memory. */
SAMEBIT_API size_t samebit_session_rows(const samebit_session *session);
SAMEBIT_API samebit_status samebit_session_logits(samebit_session *session, size_t row,
                                                  size_t count, float *logits, samebit_error *err);
SAMEBIT_API samebit_status samebit_session_hidden(const samebit_session *session, size_t row,
                                                  size_t count, float *hidden, samebit_error *err);

/* The number of tokens fed so far. */
SAMEBIT_API uint64_t samebit_session_position(const samebit_session *session);

/* Starts an empty sequence. */
SAMEBIT_API void samebit_session_reset(samebit_session *session);

/* --- generating ------------------------------------------------------------------------------- */

enum { SAMEBIT_DRAFTS = 8 };

/* The result of one round. */
typedef struct samebit_round {
    size_t size;
    uint64_t position; /* of its first token */
    uint32_t drafted, accepted, emitted;
    uint32_t drafts[SAMEBIT_DRAFTS];
    uint32_t tokens[SAMEBIT_DRAFTS + 1]; /* (emitted) */
} samebit_round;

/* Chooses the token after the last row fed, as the session's options say. */
SAMEBIT_API samebit_status samebit_session_pick(samebit_session *session, uint32_t *token,
                                                samebit_error *err);

/* One speculative round after `token`, which was chosen and not yet fed. The round has k drafts, 0
 * .. SAMEBIT_DRAFTS: those of `given`, or those of the MTP head if `given` is NULL. It verifies
 * them in one call, keeps the rows of the accepted drafts and chooses one more token. It emits at
 * most `limit` tokens (0: no limit). Afterwards every emitted token except the last has been
 * fed. */
SAMEBIT_API samebit_status samebit_session_round(samebit_session *session, uint32_t token,
                                                 uint32_t k, const uint32_t *given, size_t limit,
                                                 samebit_round *out, samebit_error *err);

/* Feeds a prompt (prompt_count >= 1) and generates n tokens in rounds of `drafts` drafts, as
 * `samebit run --tokens ... -n N --draft K` does. logits (n) receives the digest of each token's
 * logits; NULL: not wanted. */
SAMEBIT_API samebit_status samebit_session_generate(samebit_session *session,
                                                    const uint32_t *prompt, size_t prompt_count,
                                                    size_t n, uint32_t drafts, uint32_t *tokens,
                                                    samebit_digest *logits, samebit_error *err);

/* --- states ----------------------------------------------------------------------------------- */

/* Everything that a sequence remembers. Immutable. */
typedef struct samebit_state samebit_state;

/* samebit_session_state copies the session's state. After a verify that was not yet cut,
 * samebit_session_state_at copies the state that keep(kept) would leave (rollback by snapshots
 * only). */
SAMEBIT_API samebit_status samebit_session_state(const samebit_session *session,
                                                 samebit_state **out, samebit_error *err);
SAMEBIT_API samebit_status samebit_session_state_at(const samebit_session *session, size_t kept,
                                                    samebit_state **out, samebit_error *err);
SAMEBIT_API void samebit_state_free(samebit_state *state);

/* Continues from a copy of a state of the same checkpoint, as if its tokens had been fed. */
SAMEBIT_API samebit_status samebit_session_set_state(samebit_session *session,
                                                     const samebit_state *state,
                                                     samebit_error *err);

SAMEBIT_API uint64_t samebit_state_position(const samebit_state *state);
SAMEBIT_API int samebit_state_has_mtp(const samebit_state *state);

/* The digests that `samebit run` prints as `target` and `mtp`; mtp is "" without an MTP head. Both
 * arguments may be NULL. */
SAMEBIT_API samebit_status samebit_state_digests(const samebit_state *state, samebit_digest *target,
                                                 samebit_digest *mtp, samebit_error *err);

/* The arrays of a state, all F32, in an order that never changes: "layers.3.self_attn.keys"
 * (position, kv_heads, head_dim), "...conv_state", "...recurrent_state", "mtp.hidden". Some may
 * have no elements. out->name points into `name`, which the caller provides. */
typedef struct samebit_name {
    char text[64];
} samebit_name;
SAMEBIT_API size_t samebit_state_pieces(const samebit_state *state);
SAMEBIT_API samebit_status samebit_state_piece(const samebit_state *state, size_t i,
                                               samebit_array *out, samebit_name *name,
                                               samebit_error *err);

/* SAMEBIT_OK if both states have the same bits. Else SAMEBIT_FAIL, and err names the first
 * difference. */
SAMEBIT_API samebit_status samebit_state_compare(const samebit_state *a, const samebit_state *b,
                                                 samebit_error *err);

/* State files (docs/state.md). A state file belongs to one checkpoint and one profile; load refuses
 * it for any other. save: tokens (position) are the ids that were fed; NULL: not stored. load_bytes
 * takes the bytes of a file and keeps no pointer to them. */
SAMEBIT_API samebit_status samebit_session_save(samebit_session *session, const char *path,
                                                const uint32_t *tokens, samebit_error *err);
SAMEBIT_API samebit_status samebit_session_load(samebit_session *session, const char *path,
                                                samebit_error *err);
SAMEBIT_API samebit_status samebit_session_load_bytes(samebit_session *session, const void *bytes,
                                                      size_t size, samebit_error *err);

/* --- cases: inputs and expected outputs of a kernel ------------------------------------------- */

/* The lists of operations, of regimes (kinds of inputs) and of arithmetics, the tightest first
 * (docs/gates.md). An index past the end gives NULL. */
SAMEBIT_API size_t samebit_op_count(void);
SAMEBIT_API const char *samebit_op_name(size_t op);
SAMEBIT_API const char *samebit_op_help(size_t op);
SAMEBIT_API const char *samebit_op_clause(size_t op); /* of docs/spec.md */
SAMEBIT_API const char *samebit_op_format(size_t op,
                                          size_t i); /* of weights; the first is the default */
SAMEBIT_API const char *samebit_op_param(size_t op, size_t i); /* names of its dimensions: "rows" */
SAMEBIT_API const char *
samebit_op_shape(size_t op, size_t i); /* shapes at edges that kernels have, "rows=63" */
SAMEBIT_API int samebit_op_takes(size_t op,
                                 size_t regime); /* 0: its contract excludes the regime */

SAMEBIT_API size_t samebit_regime_count(void);
SAMEBIT_API const char *samebit_regime_name(size_t regime);
SAMEBIT_API const char *samebit_regime_help(size_t regime);

SAMEBIT_API size_t samebit_arith_count(void);
/* The name is written into `room`. */
SAMEBIT_API const char *samebit_arith_name(size_t arith, samebit_name *room);
SAMEBIT_API const char *samebit_arith_help(size_t arith);

/* One operation on one set of inputs, with the expected outputs. Immutable. */
typedef struct samebit_case samebit_case;

/* Makes a case, which depends on nothing but the arguments. NULL selects the default of format,
 * shape, regime ("normal") or input (the type of activations: "BF16"; others are "F16" and "F32").
 * A shape names the dimensions that differ from the default, "rows=4,k=256". */
SAMEBIT_API samebit_status samebit_case_make(const char *op, const char *format, const char *shape,
                                             const char *regime, const char *input, uint64_t seed,
                                             samebit_case **out, samebit_error *err);

/* Makes a case from inputs of the caller, which are copied. arrays must have every input of a made
 * case of this op, format and shape, with its name ("x" or "in.x"), type and shape. */
SAMEBIT_API samebit_status samebit_case_from_arrays(const char *op, const char *format,
                                                    const char *shape, const char *input,
                                                    const samebit_array *arrays, size_t count,
                                                    samebit_case **out, samebit_error *err);

/* Files of `samebit vectors`. read stores the arithmetic of the file in arith, unless arith is
 * NULL. It refuses a file whose expected values do not follow from its inputs, or whose inputs do
 * not follow from its seed. write accepts only cases of samebit_case_make. */
SAMEBIT_API samebit_status samebit_case_read(const char *path, samebit_case **out,
                                             samebit_name *arith, samebit_error *err);
SAMEBIT_API samebit_status samebit_case_write(const samebit_case *c, const char *arith,
                                              const char *path, samebit_error *err);
SAMEBIT_API void samebit_case_free(samebit_case *c);

/* The arguments from which a case was made; shape names all dimensions. */
typedef struct samebit_case_info {
    size_t size;
    const char *op, *format, *shape, *regime, *input;
    uint64_t seed;
} samebit_case_info;
SAMEBIT_API samebit_status samebit_case_about(const samebit_case *c, samebit_case_info *out,
                                              samebit_error *err);

/* The inputs, as a kernel receives them: "x", "weight_packed", ... */
SAMEBIT_API size_t samebit_case_inputs(const samebit_case *c);
SAMEBIT_API samebit_status samebit_case_input(const samebit_case *c, size_t i, samebit_array *out,
                                              samebit_error *err);

/* The outputs: the first is "out", every other one "out.NAME". The array has the result of profile
 * exact, F32. Choices (codes, ids, tokens) are whole numbers in it. */
SAMEBIT_API size_t samebit_case_outputs(const samebit_case *c);
SAMEBIT_API samebit_status samebit_case_output(const samebit_case *c, size_t i, samebit_array *out,
                                               samebit_error *err);
SAMEBIT_API int samebit_case_is_choice(const samebit_case *c, size_t output);

/* For each element of an output: samebit_case_real gives the exact result of the whole operation,
 * without any rounding, as hi + lo (lo may be NULL). samebit_case_bound gives the largest distance
 * from this value that a correct kernel of an arithmetic may have. */
SAMEBIT_API samebit_status samebit_case_real(const samebit_case *c, size_t output, double *hi,
                                             double *lo, samebit_error *err);
SAMEBIT_API samebit_status samebit_case_bound(const samebit_case *c, size_t output,
                                              const char *arith, double *bound, samebit_error *err);

/* --- judging ---------------------------------------------------------------------------------- */

/* A judgement. index, found, expected (the real value) and bound describe element `first` of
 * `output`, the first element outside its bound. If no element is outside, they describe element
 * `nearest`, the one nearest to its bound. */
typedef struct samebit_result {
    size_t size;
    samebit_status status; /* OK, FAIL or MISTRUSTED */
    char verdict[16];      /* "IDENTICAL", "WITHIN", "NEAR_TIE", "MISTRUSTED", "FAIL" */
    samebit_name arith;    /* the arithmetic that set the bounds */
    uint64_t count;        /* elements compared, in all outputs given */
    uint64_t identical;    /* elements with the bits of profile exact */
    uint64_t outside;      /* elements outside their bounds */
    uint64_t near_ties;    /* choices that differ, within the bound */
    double worst;          /* the largest error / bound; infinite outside a bound of 0 */
    uint32_t has_first, output;
    uint64_t first, nearest;
    uint64_t index[SAMEBIT_RANK];
    double found, expected, bound;
    char words[768]; /* one line for readers, axes by name */
    char note[512];  /* a further remark; or "" */
} samebit_result;

/* Judges the outputs of a kernel. They are arrays named "out" (or NULL) and "out.NAME", of any
 * float type (choices: any integer type), with the shapes of the outputs. The first output must be
 * present. arith NULL: the tightest arithmetic that passes. Returns the status of the result, or
 * USAGE or REFUSED if there is no result. */
SAMEBIT_API samebit_status samebit_case_judge(const samebit_case *c, const char *arith,
                                              const samebit_array *got, size_t count,
                                              samebit_result *out, samebit_error *err);

/* The mistakes that the inputs of a case would have shown under an arithmetic: known mistakes in
 * the ops of the case (`samebit fault --list`), and mistakes in writing the outputs. */
typedef struct samebit_power {
    size_t size;
    uint64_t planted, caught;
    uint64_t of_ops, of_ops_caught; /* those among them that are mistakes in ops */
    char shown[1024], missed[1024]; /* their names, ", " between */
} samebit_power;

/* dtype is the type of all outputs (NULL: F32): outputs of a narrow type show fewer mistakes.
 * result, unless NULL, is a result of samebit_case_judge. If it passed on inputs that could not
 * have shown a mistake, it becomes MISTRUSTED, as in `samebit judge`. */
SAMEBIT_API samebit_status samebit_case_power(const samebit_case *c, const char *arith,
                                              const char *dtype, samebit_power *out,
                                              samebit_result *result, samebit_error *err);

/* --- the metamorphic gate --------------------------------------------------------------------- */

/* The memory into which a kernel writes one output, dense, in the shape of that output. */
typedef struct samebit_room {
    const char *dtype;
    void *data;
    uint64_t bytes;
} samebit_room;

/* The kernel under test. It reads the inputs of a case, whose outputs have no values yet, and
 * writes every element of out[0 .. samebit_case_outputs(c) - 1]. A nonzero return value ends the
 * gate, which then returns SAMEBIT_USAGE. */
typedef int (*samebit_kernel)(void *ctx, const samebit_case *c, const samebit_room *out);

typedef struct samebit_meta_row {
    char name[32];    /* "repeated", "surroundings", "alone", "permuted", "width", "split" */
    char verdict[16]; /* "IDENTICAL", "FAIL", or "SKIPPED": not promised by the op */
    uint64_t calls, elements;
    char words[400]; /* the first difference, axes by name; or the reason for SKIPPED */
} samebit_meta_row;

enum { SAMEBIT_META_ROWS = 12 };

typedef struct samebit_meta {
    size_t size;
    samebit_status status; /* OK, FAIL, or MISTRUSTED: all elements have one value */
    char words[400];
    uint32_t rows;
    samebit_meta_row row[SAMEBIT_META_ROWS];
} samebit_meta;

/* Calls a kernel many times: with the same inputs, in memory with other contents around them, with
 * each row alone, with the rows in another order, with other widths, and in two calls. All results
 * must have the same bits. There are no expected values and no tolerances. dtypes names the type
 * that the kernel writes, for each output (NULL: F32, for choices U32). repeats 0: 100. Returns the
 * status of the result. */
SAMEBIT_API samebit_status samebit_case_metamorphic(const samebit_case *c, samebit_kernel kernel,
                                                    void *ctx, const char *const *dtypes,
                                                    unsigned repeats, samebit_meta *out,
                                                    samebit_error *err);

#ifdef __cplusplus
}
#endif

#endif

/* samebit.h - the C interface of samebit, a deterministic reference of the Qwen3.5 / Qwen3.6 /
 * Qwen3-Next models and a judge of other people's kernels. docs/gates/api.md introduces it.
 *
 * Errors. A function that can fail returns a samebit_status, of which 0 is success, and takes as
 * its last argument a place for one line of text that says what was found and what was expected
 * (NULL: not wanted). It is written on failure only. Nothing is printed, and the process never ends
 * here. Ownership. Handles are opaque and belong to the caller, who gives each back to its _free or
 * _close (which take NULL). Texts and arrays that are read from a handle stay good until it is
 * freed or changed. Handles may be freed in any order. What a caller passes in is copied where it
 * is kept. Where a function fails, *out is left as it was. Threads. There is no global state that a
 * caller could see. Different handles may be used by different threads at the same time, and so may
 * one checkpoint, one state or one case, which never change; one session is used by one thread at a
 * time. A call computes on the threads that its options say, or on fewer where the system starts no
 * more, or on its own thread alone while another call of the process has them; how many those are
 * never changes a bit. A call behind a fork() starts threads of its own. Numbers. Arrays are dense,
 * row-major and little-endian; float is binary32. The floating-point mode of the thread that calls
 * (how it rounds, whether it flushes subnormals) is set aside during a call and put back at its
 * end; functions of the caller that are called back run in the default mode. Stability. Structs
 * whose first member is `size` may grow behind their end: set it to sizeof before the call, and the
 * rest to 0. Lists that are read by index may grow; everything else stays as long as the library is
 * libsamebit.so.0. */
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

/* --- errors and version ------------------------------------------------------------------------
 */

/* The values are the exit statuses of the program `samebit`. */
typedef enum samebit_status {
    SAMEBIT_OK = 0,
    SAMEBIT_FAIL = 1,    /* a comparison failed: an output lies outside of its bound */
    SAMEBIT_USAGE = 2,   /* the call makes no sense: an argument, a name, a length */
    SAMEBIT_REFUSED = 3, /* a file is damaged or of another kind, memory or a system call failed, or
                            a number left the domain of the model */
    SAMEBIT_MISTRUSTED = 4 /* what was compared could not have shown a fault */
} samebit_status;

/* One line of text that ends with a NUL. */
typedef struct samebit_error {
    char text[1024];
} samebit_error;

/* XXH3-128 as 32 lower-case hexadecimal digits and a NUL; of an array of float, of its bytes. */
typedef struct samebit_digest {
    char hex[33];
} samebit_digest;

#define SAMEBIT_VERSION "0.1.0"

/* The version of the library that runs, SAMEBIT_VERSION of its header; and of the specification
 * that it realises (docs/spec.md): results of one specification version never change. */
SAMEBIT_API const char *samebit_version(void);
SAMEBIT_API unsigned samebit_spec_version(void);

/* The digest of `count` values, as `samebit run` prints it of logits. */
SAMEBIT_API samebit_status samebit_digest_f32(const float *values, size_t count,
                                              samebit_digest *out, samebit_error *err);

/* --- arrays ------------------------------------------------------------------------------------
 */

enum { SAMEBIT_RANK = 8 };

/* An array that somebody else owns. */
typedef struct samebit_array {
    const char *name;  /* "in.x", "layers.0.conv_state", "out" */
    const char *dtype; /* as safetensors spells it: "F32", "BF16", "F8_E4M3", "U8", "I32", "F64" */
    const char *axes;  /* what the dimensions are, "row,head,column"; NULL: not known */
    uint32_t rank;     /* 0 .. SAMEBIT_RANK; 0 is one element */
    uint64_t shape[SAMEBIT_RANK];
    const void *data; /* NULL: only described */
    uint64_t bytes;
} samebit_array;

/* --- checkpoints -------------------------------------------------------------------------------
 */

/* A folder with config.json and safetensors files, mapped and bound: immutable. */
typedef struct samebit_checkpoint samebit_checkpoint;

/* Opens a folder; of `overlays`, each "PATTERN=FOLDER", modules of other folders are laid over in
 * turn (`samebit run --overlay`). overlays may be NULL where overlay_count is 0. */
SAMEBIT_API samebit_status samebit_checkpoint_open(const char *folder, const char *const *overlays,
                                                   size_t overlay_count, samebit_checkpoint **out,
                                                   samebit_error *err);
SAMEBIT_API void samebit_checkpoint_close(samebit_checkpoint *checkpoint);

/* At most so many bytes of weights stay in memory; 0: all of them may. Never changes a bit. */
SAMEBIT_API samebit_status samebit_checkpoint_resident_limit(samebit_checkpoint *checkpoint,
                                                             uint64_t bytes, samebit_error *err);

/* Numbers of the configuration, by name: "hidden_size", "layers", "vocab_size", "heads",
 * "kv_heads", "head_dim", "experts", "has_mtp", ... samebit_config_name lists them, i <
 * samebit_config_count. */
SAMEBIT_API size_t samebit_config_count(void);
SAMEBIT_API const char *samebit_config_name(size_t i);
SAMEBIT_API samebit_status samebit_checkpoint_config(const samebit_checkpoint *checkpoint,
                                                     const char *name, double *out,
                                                     samebit_error *err);

/* The model_type, "qwen3_5_moe"; and the architecture, "" where the file has none. */
SAMEBIT_API const char *samebit_checkpoint_family(const samebit_checkpoint *checkpoint);
SAMEBIT_API const char *samebit_checkpoint_architecture(const samebit_checkpoint *checkpoint);

/* 1 where a layer is one of full attention, 0 where it is of linear attention or does not exist. */
SAMEBIT_API int samebit_checkpoint_is_full(const samebit_checkpoint *checkpoint, uint32_t layer);

/* How linear layers are stored, experts counted one by one: name ("nvfp4-ct"), layers and bytes of
 * form i < samebit_storage_count(); many have no layers. */
SAMEBIT_API size_t samebit_storage_count(void);
SAMEBIT_API samebit_status samebit_checkpoint_storage(const samebit_checkpoint *checkpoint,
                                                      size_t i, const char **name, uint64_t *layers,
                                                      uint64_t *bytes, samebit_error *err);

/* The tensors as the files have them, sorted by name: data points into the mapped file and need not
 * be aligned. find: SAMEBIT_USAGE where there is none of that name. */
SAMEBIT_API size_t samebit_checkpoint_tensors(const samebit_checkpoint *checkpoint);
SAMEBIT_API samebit_status samebit_checkpoint_tensor(const samebit_checkpoint *checkpoint, size_t i,
                                                     samebit_array *out, samebit_error *err);
SAMEBIT_API samebit_status samebit_checkpoint_find(const samebit_checkpoint *checkpoint,
                                                   const char *name, samebit_array *out,
                                                   samebit_error *err);

/* The digest of names, types, shapes and bytes of all tensors (`samebit hash`). The first call
 * reads them all. */
SAMEBIT_API samebit_status samebit_checkpoint_digest(samebit_checkpoint *checkpoint,
                                                     samebit_digest *out, samebit_error *err);

/* --- profiles ----------------------------------------------------------------------------------
 */

/* Named tables of rounding points and forms (docs/profiles.md), i < samebit_profile_count(). */
SAMEBIT_API size_t samebit_profile_count(void);
SAMEBIT_API const char *samebit_profile_name(size_t i);
SAMEBIT_API const char *samebit_profile_help(size_t i);

/* --- sessions ----------------------------------------------------------------------------------
 */

/* One sequence fed through one model. */
typedef struct samebit_session samebit_session;

/* Called behind every intermediate value of a call, "layers.3.linear_attn.core_out" and its like
 * (docs/trace.md), by the thread that calls the session. data is (rows, cols); what is written
 * there is what the model goes on with. Not 0 ends the call, which then gives SAMEBIT_USAGE. */
typedef int (*samebit_tap)(void *ctx, const char *name, float *data, size_t rows, size_t cols);

/* How a verify is undone. */
typedef enum samebit_rollback {
    SAMEBIT_ROLLBACK_AUTO = 0,  /* snapshots where the profile has a state behind each row */
    SAMEBIT_ROLLBACK_SNAPSHOTS, /* the states behind each row are kept */
    SAMEBIT_ROLLBACK_REPLAY     /* the state before it is kept, and the rows are fed again */
} samebit_rollback;

/* 0 everywhere behind size: profile exact, all threads, no head, greedy. */
typedef struct samebit_session_options {
    size_t size;
    const char *profile;         /* NULL: "exact" */
    const char *const *settings; /* single knobs behind it, "beta=act" */
    size_t setting_count;
    unsigned threads; /* 0: as many as the process may keep busy */
    int mtp;          /* the MTP head is fed along; the checkpoint must have one */
    samebit_tap tap;  /* NULL: none */
    void *tap_ctx;
    samebit_rollback rollback;
    /* How tokens are chosen (section P of docs/spec.md). */
    float temperature; /* 0: greedy, ties to the lowest id */
    uint32_t top_k;    /* 0: all */
    float top_p;       /* 0 or 1: all */
    float min_p;       /* 0: all */
    uint64_t seed, sequence;
    int residual; /* drafts are accepted by the ratio of distributions (P-13), not by equality */
} samebit_session_options;

/* options NULL: as if all were 0. */
SAMEBIT_API samebit_status samebit_session_new(samebit_checkpoint *checkpoint,
                                               const samebit_session_options *options,
                                               samebit_session **out, samebit_error *err);
SAMEBIT_API void samebit_session_free(samebit_session *session);

/* Feeds n >= 1 tokens in one call. In profile exact any split of a sequence into calls gives the
 * same bits. After a failure the session refuses all but reset, load and set_state. */
SAMEBIT_API samebit_status samebit_session_feed(samebit_session *session, const uint32_t *tokens,
                                                size_t n, samebit_error *err);

/* The same, and keep can undo it: once, it keeps the first `kept` of its n rows as if only they had
 * been fed. */
SAMEBIT_API samebit_status samebit_session_verify(samebit_session *session, const uint32_t *tokens,
                                                  size_t n, samebit_error *err);
SAMEBIT_API samebit_status samebit_session_keep(samebit_session *session, size_t kept,
                                                samebit_error *err);

/* One step of the MTP head behind the fed tokens (docs/mtp.md): logits (vocab_size) of the token
 * behind `token`. The first step since the last feed or keep pairs it with the last true hidden
 * vector, each further one with the head's own output. The state stays what it was. */
SAMEBIT_API samebit_status samebit_session_draft(samebit_session *session, uint32_t token,
                                                 float *logits, samebit_error *err);

/* Rows of the last call; their logits (count, vocab_size) and hidden vectors behind the final norm
 * (count, hidden_size) from `row` on, into the caller's memory. */
SAMEBIT_API size_t samebit_session_rows(const samebit_session *session);
SAMEBIT_API samebit_status samebit_session_logits(samebit_session *session, size_t row,
                                                  size_t count, float *logits, samebit_error *err);
SAMEBIT_API samebit_status samebit_session_hidden(const samebit_session *session, size_t row,
                                                  size_t count, float *hidden, samebit_error *err);

/* Tokens fed so far. */
SAMEBIT_API uint64_t samebit_session_position(const samebit_session *session);

/* Back to an empty sequence. */
SAMEBIT_API void samebit_session_reset(samebit_session *session);

/* --- generating --------------------------------------------------------------------------------
 */

enum { SAMEBIT_DRAFTS = 8 };

/* What one round did. */
typedef struct samebit_round {
    size_t size;
    uint64_t position; /* where its first token stands */
    uint32_t drafted, accepted, emitted;
    uint32_t drafts[SAMEBIT_DRAFTS];
    uint32_t tokens[SAMEBIT_DRAFTS + 1]; /* (emitted) */
} samebit_round;

/* The token behind the last row fed, by the session's way of choosing. */
SAMEBIT_API samebit_status samebit_session_pick(samebit_session *session, uint32_t *token,
                                                samebit_error *err);

/* One speculative round behind `token`, which was chosen and not yet fed: k drafts, 0 ..
 * SAMEBIT_DRAFTS, those of `given` or, where it is NULL, of the MTP head; the rows that verify
 * them; those that hold are kept, and one token more is chosen. At most `limit` tokens are emitted
 * (0: no limit). Afterwards all but the last token emitted have been fed. */
SAMEBIT_API samebit_status samebit_session_round(samebit_session *session, uint32_t token,
                                                 uint32_t k, const uint32_t *given, size_t limit,
                                                 samebit_round *out, samebit_error *err);

/* Feeds a prompt (prompt_count >= 1) and generates n tokens in rounds of `drafts` drafts, as
 * `samebit run --tokens ... -n N --draft K`. logits, (n) digests of the logits behind each token,
 * may be NULL. */
SAMEBIT_API samebit_status samebit_session_generate(samebit_session *session,
                                                    const uint32_t *prompt, size_t prompt_count,
                                                    size_t n, uint32_t drafts, uint32_t *tokens,
                                                    samebit_digest *logits, samebit_error *err);

/* --- states ------------------------------------------------------------------------------------
 */

/* Everything that a sequence remembers, as a value. */
typedef struct samebit_state samebit_state;

/* A copy of the session's state; and behind a verify that was not yet cut, of the one that
 * keep(kept) would leave (rollback by snapshots only). */
SAMEBIT_API samebit_status samebit_session_state(const samebit_session *session,
                                                 samebit_state **out, samebit_error *err);
SAMEBIT_API samebit_status samebit_session_state_at(const samebit_session *session, size_t kept,
                                                    samebit_state **out, samebit_error *err);
SAMEBIT_API void samebit_state_free(samebit_state *state);

/* Goes on from a copy of a state of the same checkpoint, as if its tokens had been fed. */
SAMEBIT_API samebit_status samebit_session_set_state(samebit_session *session,
                                                     const samebit_state *state,
                                                     samebit_error *err);

SAMEBIT_API uint64_t samebit_state_position(const samebit_state *state);
SAMEBIT_API int samebit_state_has_mtp(const samebit_state *state);

/* The digests that `samebit run` prints as `target` and `mtp`; the latter is "" without a head.
 * Both may be NULL. */
SAMEBIT_API samebit_status samebit_state_digests(const samebit_state *state, samebit_digest *target,
                                                 samebit_digest *mtp, samebit_error *err);

/* Its arrays, all F32, in an order that never changes: "layers.3.self_attn.keys" (position,
 * kv_heads, head_dim), "...conv_state", "...recurrent_state", "mtp.hidden". Some may have no
 * elements. out->name points into `name`, which the caller provides. */
typedef struct samebit_name {
    char text[64];
} samebit_name;
SAMEBIT_API size_t samebit_state_pieces(const samebit_state *state);
SAMEBIT_API samebit_status samebit_state_piece(const samebit_state *state, size_t i,
                                               samebit_array *out, samebit_name *name,
                                               samebit_error *err);

/* SAMEBIT_OK where two states are equal to the bit, else SAMEBIT_FAIL, and err says where they
 * differ first. */
SAMEBIT_API samebit_status samebit_state_compare(const samebit_state *a, const samebit_state *b,
                                                 samebit_error *err);

/* State files (docs/state.md), which belong to one checkpoint and one profile: another is refused.
 * save: tokens (position), the ids that were fed, may be NULL. load: from a file, or from its
 * bytes, which are not kept. */
SAMEBIT_API samebit_status samebit_session_save(samebit_session *session, const char *path,
                                                const uint32_t *tokens, samebit_error *err);
SAMEBIT_API samebit_status samebit_session_load(samebit_session *session, const char *path,
                                                samebit_error *err);
SAMEBIT_API samebit_status samebit_session_load_bytes(samebit_session *session, const void *bytes,
                                                      size_t size, samebit_error *err);

/* --- cases: what a kernel is given and must give ------------------------------------------------
 */

/* Lists: operations, kinds of inputs, and arithmetics, the tightest first (docs/gates.md). Behind
 * the end: NULL. */
SAMEBIT_API size_t samebit_op_count(void);
SAMEBIT_API const char *samebit_op_name(size_t op);
SAMEBIT_API const char *samebit_op_help(size_t op);
SAMEBIT_API const char *samebit_op_clause(size_t op);           /* of docs/spec.md */
SAMEBIT_API const char *samebit_op_format(size_t op, size_t i); /* of weights; the first: default */
SAMEBIT_API const char *samebit_op_param(size_t op, size_t i);  /* numbers of its shape: "rows" */
SAMEBIT_API const char *samebit_op_shape(size_t op, size_t i);  /* where kernels have bounds */
SAMEBIT_API int samebit_op_takes(size_t op, size_t regime);     /* 0: its contract excludes them */

SAMEBIT_API size_t samebit_regime_count(void);
SAMEBIT_API const char *samebit_regime_name(size_t regime);
SAMEBIT_API const char *samebit_regime_help(size_t regime);

SAMEBIT_API size_t samebit_arith_count(void);
/* The name is written into `room`. */
SAMEBIT_API const char *samebit_arith_name(size_t arith, samebit_name *room);
SAMEBIT_API const char *samebit_arith_help(size_t arith);

/* One operation on one set of inputs, with what is expected of it: immutable. */
typedef struct samebit_case samebit_case;

/* Makes a case: a pure function of its arguments. NULL is the default of format, shape, regime
 * ("normal") and input ("BF16", the type of activations; or "F16", "F32"). A shape names what is
 * not the default, "rows=4,k=256". */
SAMEBIT_API samebit_status samebit_case_make(const char *op, const char *format, const char *shape,
                                             const char *regime, const char *input, uint64_t seed,
                                             samebit_case **out, samebit_error *err);

/* The same of inputs that the caller has, all that a made case of this op, format and shape has: by
 * name ("x", or "in.x"), of the same types and shapes, copied. */
SAMEBIT_API samebit_status samebit_case_from_arrays(const char *op, const char *format,
                                                    const char *shape, const char *input,
                                                    const samebit_array *arrays, size_t count,
                                                    samebit_case **out, samebit_error *err);

/* Files of `samebit vectors`. read gives the arithmetic that a file was written for, unless arith
 * is NULL. A file whose expected values do not follow from its inputs, or whose inputs do not
 * follow from its seed, is refused; write takes made cases only. */
SAMEBIT_API samebit_status samebit_case_read(const char *path, samebit_case **out,
                                             samebit_name *arith, samebit_error *err);
SAMEBIT_API samebit_status samebit_case_write(const samebit_case *c, const char *arith,
                                              const char *path, samebit_error *err);
SAMEBIT_API void samebit_case_free(samebit_case *c);

/* What a case was made from; shape has all numbers. */
typedef struct samebit_case_info {
    size_t size;
    const char *op, *format, *shape, *regime, *input;
    uint64_t seed;
} samebit_case_info;
SAMEBIT_API samebit_status samebit_case_about(const samebit_case *c, samebit_case_info *out,
                                              samebit_error *err);

/* Inputs, as a kernel gets them: "x", "weight_packed", ... */
SAMEBIT_API size_t samebit_case_inputs(const samebit_case *c);
SAMEBIT_API samebit_status samebit_case_input(const samebit_case *c, size_t i, samebit_array *out,
                                              samebit_error *err);

/* Outputs: the first is "out", a further one "out.NAME". The array is what profile exact gives,
 * F32. A choice (codes, ids, tokens) is a whole number. */
SAMEBIT_API size_t samebit_case_outputs(const samebit_case *c);
SAMEBIT_API samebit_status samebit_case_output(const samebit_case *c, size_t i, samebit_array *out,
                                               samebit_error *err);
SAMEBIT_API int samebit_case_is_choice(const samebit_case *c, size_t output);

/* Per element of an output: the unrounded mathematics of the whole operation, hi + lo (lo may be
 * NULL); and how far from it a correct kernel of an arithmetic may be. */
SAMEBIT_API samebit_status samebit_case_real(const samebit_case *c, size_t output, double *hi,
                                             double *lo, samebit_error *err);
SAMEBIT_API samebit_status samebit_case_bound(const samebit_case *c, size_t output,
                                              const char *arith, double *bound, samebit_error *err);

/* --- judging -----------------------------------------------------------------------------------
 */

/* What a judgement found. index, found, expected (the real value) and bound are those of element
 * `first` of `output`, the first one outside; where none is, of `nearest`, the one nearest to its
 * bound. */
typedef struct samebit_result {
    size_t size;
    samebit_status status; /* OK, FAIL or MISTRUSTED */
    char verdict[16];      /* "IDENTICAL", "WITHIN", "NEAR_TIE", "MISTRUSTED", "FAIL" */
    samebit_name arith;    /* by which it was judged */
    uint64_t count;        /* elements compared, of all outputs given */
    uint64_t identical;    /* of these: every bit as profile exact */
    uint64_t outside;      /* outside of their bounds */
    uint64_t near_ties;    /* choices that the bound leaves open */
    double worst;          /* error / bound, the largest; infinite outside of a bound of 0 */
    uint32_t has_first, output;
    uint64_t first, nearest;
    uint64_t index[SAMEBIT_RANK];
    double found, expected, bound;
    char words[768]; /* one line for people, axes by name */
    char note[512];  /* what else they should know; or "" */
} samebit_result;

/* Judges what a kernel gave: arrays named "out" (or NULL) and "out.NAME", of any float type
 * (choices: of any whole numbers), of the shapes of the outputs; the first output must be there.
 * arith NULL: the tightest of the list that passes. The status is that of the result, or USAGE or
 * REFUSED where there is none. */
SAMEBIT_API samebit_status samebit_case_judge(const samebit_case *c, const char *arith,
                                              const samebit_array *got, size_t count,
                                              samebit_result *out, samebit_error *err);

/* Which mistakes these very inputs would have shown under an arithmetic: those that people make in
 * the ops of the case (`samebit fault --list`), and slips with the outputs. */
typedef struct samebit_power {
    size_t size;
    uint64_t planted, caught;
    uint64_t of_ops, of_ops_caught; /* of these, mistakes in ops */
    char shown[1024], missed[1024]; /* their names, ", " between */
} samebit_power;

/* dtype is that of the outputs (NULL: F32), which count all: narrow ones show less. result, unless
 * NULL, is one of samebit_case_judge: what passed on inputs that could not have shown a mistake
 * becomes MISTRUSTED, as `samebit judge` has it. */
SAMEBIT_API samebit_status samebit_case_power(const samebit_case *c, const char *arith,
                                              const char *dtype, samebit_power *out,
                                              samebit_result *result, samebit_error *err);

/* --- the metamorphic gate ----------------------------------------------------------------------
 */

/* Where a kernel writes one output: dense, of the shape of that output. */
typedef struct samebit_room {
    const char *dtype;
    void *data;
    uint64_t bytes;
} samebit_room;

/* Reads the inputs of a case, whose outputs have no values yet, and writes every element of out[0
 * .. samebit_case_outputs(c) - 1]. Not 0 ends the gate, which then gives SAMEBIT_USAGE. */
typedef int (*samebit_kernel)(void *ctx, const samebit_case *c, const samebit_room *out);

typedef struct samebit_meta_row {
    char name[32];    /* "repeated", "surroundings", "alone", "permuted", "width", "split" */
    char verdict[16]; /* "IDENTICAL", "FAIL", or "SKIPPED": the op does not promise it */
    uint64_t calls, elements;
    char words[400]; /* the first difference, axes by name; or why it was skipped */
} samebit_meta_row;

enum { SAMEBIT_META_ROWS = 12 };

typedef struct samebit_meta {
    size_t size;
    samebit_status status; /* OK, FAIL, or MISTRUSTED: every element is the same */
    char words[400];
    uint32_t rows;
    samebit_meta_row row[SAMEBIT_META_ROWS];
} samebit_meta;

/* Calls a kernel again and again: the same inputs, in memory that has something else around them,
 * each row alone, in another order, in other widths, in two calls. What all of them give must have
 * the same bits; nothing is expected and nothing is tolerated. dtypes, one per output: those that
 * the kernel writes (NULL: F32, of choices U32). repeats 0: 100. The status is that of the result.
 */
SAMEBIT_API samebit_status samebit_case_metamorphic(const samebit_case *c, samebit_kernel kernel,
                                                    void *ctx, const char *const *dtypes,
                                                    unsigned repeats, samebit_meta *out,
                                                    samebit_error *err);

#ifdef __cplusplus
}
#endif

#endif

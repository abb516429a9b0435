/* voice.h - compares the MTP head with tools/gen/mtp.py, an independent implementation that was
 * written from the head's equations alone.
 *
 * golden/mtp (or $SAMEBIT_MTP) has checkpoints, and the results of mtp.py for hidden vectors that
 * transformers computed. Entry t pairs hidden vector t with the next token. After every entry come
 * drafts, fed with the head's own output. A run replaces our hidden vectors by the recorded
 * ones. */
#ifndef SB_TESTS_HF_VOICE_H
#define SB_TESTS_HF_VOICE_H

#include "ref/run/backend.h"
#include "tests/hf/forced.h"

enum { VOICE_DRAFTS = 4, VOICE_TRACED = 3 };

/* Entries whose drafts are recorded op by op. */
extern const size_t voice_traced[VOICE_TRACED];

typedef struct voice {
    hf_fixture fixture; /* name, model, file */
    hf_arena arena;
    size_t entries;
    uint32_t *tokens, *next; /* (entries) */
    float *draft_ids;        /* (entries, VOICE_DRAFTS) */
} voice;

/* Missing files are an error. */
sb_status voice_open(const char *name, voice *out, sb_error *err);
void voice_close(voice *v);

/* The values of a recorded tensor; stops the test program if it does not exist. */
const float *voice_values(voice *v, const char *name);

typedef struct voice_run {
    voice *v;
    const sb_backend *backend; /* NULL: the reference */
    const sb_knobs *knobs;     /* NULL: profile exact */
    const float *proposed;     /* (entries, VOICE_DRAFTS) tokens fed as drafts */
    uint64_t seed;             /* if not 0: the re-rounding of T-15 for every value of the head */
    float *logits;             /* out: (VOICE_DRAFTS, V) for each entry, in order */

    /* voice_run_entry: compares every value of the head and replaces it by the recorded one. */
    forced *f;                 /* NULL: only the hidden vectors are replaced */
    const sb_arithmetic *ours; /* the arithmetic allowed to our side */
    size_t steps;              /* the number of values compared */

    /* during a run */
    size_t fed;         /* tokens before the current call of the trunk */
    size_t entry;       /* t */
    size_t first, rows; /* entry numbers of the head's call */
    uint64_t draws;
    sb_error err;
} voice_run;

/* Feeds tokens 0..t in one call, then drafts. run->err has the message of a failure. */
sb_status voice_run_entry(voice_run *run, size_t t);

/* Feeds the tokens one by one, with drafts after each. */
sb_status voice_run_all(voice_run *run);

/* For voice.c: compares a value of the head with the recorded one in their derived bound, then
 * replaces it. Values that the recording does not have are left alone. */
void voice_force(voice_run *run, const char *name, float *data, size_t rows, size_t cols);

/* The number of values that voice_force compares in one call of the head, without logits. */
size_t voice_steps(const voice *v);

#endif

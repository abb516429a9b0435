/* voice.h - the MTP head against tools/gen/mtp.py, which was written from its equations alone.
 *
 * golden/mtp (or $SAMEBIT_MTP) has checkpoints and what mtp.py made of hidden vectors that
 * transformers computed: entry t pairs hidden vector t with the token behind it; behind every entry
 * come drafts fed with the head's own output. A run gives the recorded hidden vectors in place of
 * our own. */
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

/* What is missing is an error. */
sb_status voice_open(const char *name, voice *out, sb_error *err);
void voice_close(voice *v);

/* The values of a recorded tensor; stops the test program if there is none. */
const float *voice_values(voice *v, const char *name);

typedef struct voice_run {
    voice *v;
    const sb_backend *backend; /* NULL: the reference */
    const sb_knobs *knobs;     /* NULL: profile exact */
    const float *proposed;     /* (entries, VOICE_DRAFTS) tokens fed as drafts */
    uint64_t seed;             /* not 0: T-15's re-rounding of every value of the head */
    float *logits;             /* out: (VOICE_DRAFTS, V) of an entry, one behind the other */

    /* voice_run_entry: every value of the head is compared, and replaced by the recorded one. */
    forced *f;                 /* NULL: only the hidden vectors are given */
    const sb_arithmetic *ours; /* what our side may do */
    size_t steps;              /* values compared */

    /* at work */
    size_t fed;         /* tokens before the call of the trunk */
    size_t entry;       /* t */
    size_t first, rows; /* of the head's call: entry numbers */
    uint64_t draws;
    sb_error err;
} voice_run;

/* Feeds tokens 0..t in one call, and drafts. run->err has the message of a failure. */
sb_status voice_run_entry(voice_run *run, size_t t);

/* Feeds one token after the other, and drafts behind each. */
sb_status voice_run_all(voice_run *run);

/* For voice.c: compares a value of the head with the recorded one in their derived bound, then
 * replaces it. Names that the head does not record are left alone. */
void voice_force(voice_run *run, const char *name, float *data, size_t rows, size_t cols);

/* How many values voice_force knows of one call of the head, logits apart. */
size_t voice_steps(const voice *v);

#endif

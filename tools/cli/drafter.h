/* drafter.h - what makes the drafts: the options --drafter and --draft-file, and the drafts of each
 * round that neither the MTP head nor an EAGLE-3 drafter makes. */
#ifndef SB_CLI_DRAFTER_H
#define SB_CLI_DRAFTER_H

#include "ref/run/ngram.h"
#include "tools/cli/draft_file.h"
#include "tools/cli/opts.h"

typedef enum sb_drafter_kind {
    SB_DRAFTER_head,   /* the MTP head */
    SB_DRAFTER_eagle3, /* the folder `name` */
    SB_DRAFTER_ngram,
    SB_DRAFTER_file
} sb_drafter_kind;

/* The options fill in the first part; sb_drafter_read derives the second part. */
typedef struct sb_drafter {
    const char *name, *path; /* of --drafter and --draft-file; NULL: not given */

    sb_drafter_kind kind;
    sb_ngram ngram;
    sb_draft_file *file;
} sb_drafter;

#define SB_DRAFTER_OPTS(d)                                                                         \
    {"drafter",                                                                                    \
     0,                                                                                            \
     SB_OPT_STRING,                                                                                \
     &(d)->name,                                                                                   \
     "D",                                                                                          \
     "what makes the drafts: mtp (default); the folder of an EAGLE-3 drafter; a search in the "    \
     "text: ngram, ngram:MIN-MAX, ngram-simple:N; or external: --draft-file"},                     \
    {                                                                                              \
        "draft-file", 0, SB_OPT_INPUT, &(d)->path, "F",                                            \
            "read the drafts from F (docs/draft-files.md)"                                         \
    }

/* Reads --drafter, and the file of --draft-file. Call sb_drafter_free also after a failure. */
sb_status sb_drafter_read(sb_drafter *drafter, sb_error *err);
void sb_drafter_free(sb_drafter *drafter);

/* The name for reports: that of --drafter, "external" for a file; NULL: the head. */
const char *sb_drafter_name(const sb_drafter *drafter);

/* Where a round begins. */
typedef struct sb_draft_place {
    uint64_t sequence, round, position; /* of the last token before the drafts */
    const uint32_t *text;               /* (count) up to this token; only an n-gram reads it */
    size_t count;
    int needs_odds; /* 1: residual acceptance, which needs distributions */
} sb_draft_place;

/* Sets ask->drafts, ask->given and ask->odds for an n-gram or a file, and nothing for others.
 * ask->drafts is the largest number of drafts of an n-gram. room: (SB_MAX_DRAFTS). */
sb_status sb_drafter_propose(const sb_drafter *drafter, const sb_draft_place *place, uint32_t *room,
                             sb_round_ask *ask, sb_error *err);

#endif

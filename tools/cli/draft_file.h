/* draft_file.h - drafts that a file gives (docs/draft-files.md), and the reader of such files. The
 * file is untrusted: sizes are limited and everything is checked. */
#ifndef SB_CLI_DRAFT_FILE_H
#define SB_CLI_DRAFT_FILE_H

#include "ref/run/round.h"

enum { SB_DRAFT_FILE_MAX_BYTES = 1 << 28 };

/* One entry of the file: the drafts of one round. */
typedef struct sb_drafts {
    size_t line; /* where it stands, from 1; in a trace, the step, from 0 */
    uint64_t sequence;
    uint64_t round;    /* of the sequence, from 0; 0 under SB_DRAFTS_positions */
    uint64_t position; /* of the last token before the drafts, if has_position */
    int has_position;
    size_t count;
    uint32_t *ids;       /* (count) */
    int *parents;        /* (count) of a tree (S-16); NULL: each draft follows the one before it */
    size_t depth;        /* drafts on the longest path */
    sb_draft_odds *odds; /* (count), or NULL */
    uint32_t *odds_ids;  /* memory of all odds */
    float *odds_p;
} sb_drafts;

typedef enum sb_drafts_form {
    SB_DRAFTS_lists, /* E-17: one list of ids for each round, in turn, the same for all sequences */
    SB_DRAFTS_rounds,   /* E-18: one entry for each round of each sequence */
    SB_DRAFTS_positions /* E-19: one entry for each position at which a round may begin */
} sb_drafts_form;

typedef struct sb_draft_file {
    char *name; /* as messages show it */
    sb_drafts_form form;
    int is_trace;
    sb_drafts *entries; /* (count) in the order of sequence, then round or position */
    size_t count, room;
    uint64_t *rounds; /* (sequences) the number of rounds of each, under SB_DRAFTS_rounds */
    size_t sequences;
    size_t most;      /* the largest number of drafts of an entry */
    size_t depth;     /* the largest number of drafts on a path */
    size_t tree_line; /* of the first entry with a tree; 0: none */
} sb_draft_file;

/* Reads a file. SB_ERR_INPUT: the message names the file, the line, the sequence, and the round or
 * the position. */
sb_status sb_draft_file_load(const char *path, sb_draft_file **out, sb_error *err);

/* The same for the text of a file. file: its name in messages. */
sb_status sb_draft_file_parse(const char *text, size_t n, const char *file, sb_draft_file **out,
                              sb_error *err);
void sb_draft_file_free(sb_draft_file *file);

/* SB_ERR_INPUT if an id is not below `vocabulary`, or if there are no more than `sequences`
 * sequences and an entry names another one. */
sb_status sb_draft_file_check(const sb_draft_file *file, uint32_t vocabulary, size_t sequences,
                              sb_error *err);

/* Finds the drafts of a round. `position` is that of the last token before them. SB_ERR_INPUT if
 * the file has no entry for this round, or has it at another position. */
sb_status sb_draft_file_find(const sb_draft_file *file, uint64_t sequence, uint64_t round,
                             uint64_t position, const sb_drafts **out, sb_error *err);

/* SB_ERR_INPUT: this entry lacks probabilities, which residual acceptance needs. */
sb_status sb_draft_file_lacks_odds(const sb_draft_file *file, const sb_drafts *entry,
                                   sb_error *err);

#endif

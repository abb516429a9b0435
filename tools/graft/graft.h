/* graft.h - a checkpoint with modules of another one in place of its own, or with an index and a
 * configuration that speak of all that is there: W-1 to W-17.
 *
 * Files that keep all their tensors are linked, the others written without what goes; what comes
 * stands in one new file. The configuration is changed so far that it says of every module what
 * its tensors are. */
#ifndef SB_GRAFT_GRAFT_H
#define SB_GRAFT_GRAFT_H

#include "ref/model/take.h"

typedef struct sb_graft_options {
    const char *source, *other, *target; /* folders */
    const char *const *take;             /* globs */
    size_t take_count;
    int reindex; /* nothing is taken (other is NULL): what is there gets into index and lists */
    int dry_run; /* plans, and writes nothing: target may be NULL */
    int as_bf16; /* quantized layers of what is taken are decoded: W-17 */
    int round;   /* to the nearest BF16 number, where a value is none; else it is refused */
    int copy;    /* no links: files that stay are copied */
    int replace; /* the target may be a checkpoint, which is then removed */
    void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total);
    /* Looks at the whole result before it gets its name; NULL: nobody does. */
    sb_status (*verify)(void *ctx, const char *source, const char *result, sb_error *err);
    void *verify_ctx;
} sb_graft_options;

typedef enum sb_graft_action {
    SB_GRAFT_linked, /* a second name of the same file */
    SB_GRAFT_symlinked,
    SB_GRAFT_copied,
    SB_GRAFT_rewritten,
    SB_GRAFT_dropped, /* nothing of it stays */
    SB_GRAFT_created
} sb_graft_action;

const char *sb_graft_action_name(sb_graft_action action); /* "linked" */

/* What becomes of one file of tensors. */
typedef struct sb_graft_file {
    char *name;     /* in the source; of the one that is created, in the target */
    char *new_name; /* in the target */
    sb_graft_action action;
    size_t stays, goes; /* tensors; of the one that is created, stays is what comes */
    uint64_t stays_bytes, goes_bytes;
} sb_graft_file;

typedef struct sb_graft_lines {
    char **line;
    size_t count;
} sb_graft_lines;

typedef struct sb_graft_made sb_graft_made; /* adapt.h */

typedef struct sb_grafted {
    sb_checkpoint *base, *other;
    sb_take take;
    sb_graft_made *made; /* tensors of take that come otherwise than they are stored */
    size_t made_count;
    uint64_t decoded, rounded; /* values of quantized layers, and those that were no BF16 numbers */
    sb_graft_file *files;      /* in order of name, the created one last */
    size_t file_count;
    sb_graft_lines changes; /* of configuration files, an entry each */
    sb_graft_lines notes;   /* what a configuration cannot say, and what is done instead */
    uint64_t copied;        /* other files */
    uint64_t total;         /* bytes of all tensors of the result */
} sb_grafted;

/* Everything is written to "<target>.partial", read again, and renamed when it is whole. Free in
 * any case. */
sb_status sb_graft(const sb_graft_options *options, sb_grafted *out, sb_error *err);
void sb_grafted_free(sb_grafted *grafted);

#endif

/* graft.h - writes a checkpoint with modules of another one in place of its own, or with an index
 * and a configuration that cover all its tensors: W-1 to W-17.
 *
 * Files that keep all their tensors are linked. Others are written anew without the removed
 * tensors. Taken tensors go into one new file. The configuration is changed so that it declares
 * every module as its tensors are. */
#ifndef SB_GRAFT_GRAFT_H
#define SB_GRAFT_GRAFT_H

#include "ref/model/take.h"

typedef struct sb_graft_options {
    const char *source, *other, *target; /* folders */
    const char *const *take;             /* globs */
    size_t take_count;
    int reindex; /* takes nothing (other is NULL): puts existing tensors into index and lists */
    int dry_run; /* only plans; target may be NULL */
    int as_bf16; /* decodes taken quantized layers: W-17 */
    int round;   /* rounds values that are no BF16 numbers; else they are refused */
    int copy;    /* copies files instead of linking them */
    int replace; /* the target may be a checkpoint, which is replaced */
    void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total);
    /* Checks the whole result before it gets its name, or NULL. */
    sb_status (*verify)(void *ctx, const char *source, const char *result, sb_error *err);
    void *verify_ctx;
} sb_graft_options;

typedef enum sb_graft_action {
    SB_GRAFT_linked, /* a hard link */
    SB_GRAFT_symlinked,
    SB_GRAFT_copied,
    SB_GRAFT_rewritten,
    SB_GRAFT_dropped, /* none of its tensors is kept */
    SB_GRAFT_created
} sb_graft_action;

const char *sb_graft_action_name(sb_graft_action action); /* "linked" */

/* The result for one file of tensors. */
typedef struct sb_graft_file {
    char *name;     /* in the source; for the created file, in the target */
    char *new_name; /* in the target */
    sb_graft_action action;
    size_t stays, goes; /* numbers of kept and of removed tensors; in the created file, `stays`
                           counts the taken ones */
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
    sb_graft_made *made; /* tensors of take that are converted */
    size_t made_count;
    uint64_t decoded, rounded; /* decoded values, and those of them that were rounded */
    sb_graft_file *files;      /* sorted by name, the created file last */
    size_t file_count;
    sb_graft_lines changes; /* changes of configuration files, one entry each */
    sb_graft_lines notes;   /* what a configuration cannot declare, and the substitute */
    uint64_t copied;        /* copied files without tensors */
    uint64_t total;         /* bytes of all tensors of the result */
} sb_grafted;

/* Everything is written to "<target>.partial", read again and, if complete, renamed. Call
 * sb_grafted_free in any case. */
sb_status sb_graft(const sb_graft_options *options, sb_grafted *out, sb_error *err);
void sb_grafted_free(sb_grafted *grafted);

#endif

/* site.h - the place of a fault in a model: one layer, head, expert, token or round instead of
 * everywhere.
 *
 * A site is written as words, "layer=3 part=1/4 token=10":
 *
 *   layer=N     this layer; L: the MTP head              tap=NAME    only the op of this tap
 *   part=I/N    the I-th of N parts of every output and state: a head, a group of channels
 *   token=N     the row at this position                 expert=N    calls of this expert
 *   kind=NAME   calls of this kind (draft, decode, ...)  round=N     only this round
 *
 * The op runs once correctly and once with the fault. Values outside the site are taken from the
 * correct run. */
#ifndef SB_FAULT_SITE_H
#define SB_FAULT_SITE_H

#include "ref/state/state.h"
#include "tools/judge/fault/op_faults.h"

typedef struct sb_site {
    uint32_t layer; /* a layer, or SB_EVERY_LAYER */
    char tap[48];   /* "": any */
    unsigned kinds; /* a bit per sb_call_kind; 0: all */
    size_t part, parts;
    uint64_t token, expert, round; /* SB_NOWHERE: all */
} sb_site;

#define SB_NOWHERE UINT64_MAX

sb_status sb_site_read(const char *words, sb_site *out, sb_error *err);

/* Writes a site as sb_site_read reads it; "" for everywhere. */
void sb_site_write(const sb_site *site, char *words, size_t size);

enum { SB_SITED_AGAIN = 3 };

/* A fault of an op at its site. */
typedef struct sb_sited {
    sb_site site;
    sb_plant plant;
    const sb_op_table
        *table;    /* the op runs from this table of another engine; NULL: the plant's fault */
    sb_op op;      /* that op */
    uint32_t *ids; /* the experts that the layer's router chose in this call */
    size_t ids_count, kept;
    size_t ran;                     /* number of calls with the fault */
    sb_plant again[SB_SITED_AGAIN]; /* the memories of repeated calls */
} sb_sited;

/* An sb_op_hook; ctx is a sb_sited. */
sb_status sb_sited_hook(void *ctx, const sb_op_call *call);
/* True if the fault acts in this call. */
int sb_sited_acts(const sb_sited *sited, const sb_op_call *call);

/* Makes a call for the n-th time. Each number has a memory of its own, so that the outputs of
 * earlier calls stay apart. */
sb_status sb_sited_again(sb_sited *sited, size_t n, const sb_op_call *call);
void sb_sited_clear(sb_sited *sited);

/* Sets everything outside the site back to its value in `before`. */
void sb_site_restore(const sb_site *site, const sb_state *before, sb_state *now);

#endif

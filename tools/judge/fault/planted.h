/* planted.h - the common columns of the lists in tools/judge/fault/lists, one row per fault.
 *
 *   SB_PLANTED(kind, where, by, with, "words")    a mistake: has to fire
 *   SB_HARMLESS(kind, where, by, with, "words")   an equivalent way: must not fire
 *   SB_NOT_PLANTED(kind, where, "why")            no such fault is possible
 *
 * kind: mistake, special, slip, hit, trace, or in ops.def one of op_kinds.def. where: the op, or
 * the pieces of the state that a slip or hit leaves wrong. by: the function that plants it, also
 * its name; in ops.def the name is where.kind. with: the argument of the op that is changed; in
 * slips.def the incident.
 *
 * The rows of faults.h say what a campaign runs and which signs have to fire. */
#ifndef SB_FAULT_PLANTED_H
#define SB_FAULT_PLANTED_H

#include "ref/run/hook.h"
#include "tools/judge/fault/hits.h"
#include "tools/judge/fault/slips.h"
#include "tools/judge/trace/step.h"

typedef enum sb_op_fault_kind {
#define SB_OP_FAULT_KIND(id, words) SB_OP_FAULT_##id,
#include "tools/judge/fault/lists/op_kinds.def"
#undef SB_OP_FAULT_KIND
    SB_OP_FAULT_KINDS
} sb_op_fault_kind;

struct sb_plant;
struct sb_spoiler;

typedef struct sb_planted {
    const char *name; /* "halves_swapped", "linear.dropped"; NULL after the last row */
    const char *where, *with, *words;
    int benign;
    sb_op op; /* for a fault in an op */
    sb_op_fault_kind kind;
    /* the function: the list decides which member is set; all NULL: no such fault is possible */
    sb_status (*run)(struct sb_plant *plant, const sb_op_call *call);
    void (*plant)(sb_op_table *table);
    void (*at)(sb_slip_game *game, sb_slip_stage stage);
    void (*restore)(sb_hit_game *game);
    sb_status (*spoil)(struct sb_spoiler *spoiler, sb_step *step);
} sb_planted;

/* The lists: ops.def, special.def, mistakes.def, slips.def, hits.def, spoil.def. */
extern const sb_planted sb_op_faults[], sb_specials[], sb_mistakes[], sb_slips[], sb_hits[],
    sb_spoils[];

/* NULL if the name is not in the list. */
const sb_planted *sb_planted_find(const sb_planted *list, const char *name);

#endif

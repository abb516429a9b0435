/* planted.h - what can be planted: one schema for the lists of tools/fault/lists, a row each.
 *
 *   SB_PLANTED(kind, where, by, with, "words")    a mistake: something must fire
 *   SB_HARMLESS(kind, where, by, with, "words")   another way to do the same: nothing may
 *   SB_NOT_PLANTED(kind, where, "why")            there is nothing that could go wrong in this way
 *
 * kind: mistake, special, slip, trace, or of ops.def one of op_kinds.def. where: the op, or what a
 * slip leaves wrong. by: the function that does it, and the name; of ops.def where.kind is the
 * name. with: the argument of the op that it changes; of a slip the incident.
 *
 * What a campaign runs, and what must catch it, are the rows of faults.h. */
#ifndef SB_FAULT_PLANTED_H
#define SB_FAULT_PLANTED_H

#include "ref/run/hook.h"
#include "tools/fault/slips.h"
#include "tools/trace/step.h"

typedef enum sb_op_fault_kind {
#define SB_OP_FAULT_KIND(id, words) SB_OP_FAULT_##id,
#include "tools/fault/lists/op_kinds.def"
#undef SB_OP_FAULT_KIND
    SB_OP_FAULT_KINDS
} sb_op_fault_kind;

struct sb_plant;
struct sb_spoiler;

typedef struct sb_planted {
    const char *name; /* "halves_swapped", "linear.dropped"; NULL behind the last row */
    const char *where, *with, *words;
    int benign;
    sb_op op; /* of what is planted in one */
    sb_op_fault_kind kind;
    /* one of these, by the list; none: there is no such fault */
    sb_status (*run)(struct sb_plant *plant, const sb_op_call *call);
    void (*plant)(sb_op_table *table);
    void (*at)(sb_slip_game *game, sb_slip_stage stage);
    sb_status (*spoil)(struct sb_spoiler *spoiler, sb_step *step);
} sb_planted;

/* The lists: ops.def, special.def, mistakes.def, slips.def, spoil.def. */
extern const sb_planted sb_op_faults[], sb_specials[], sb_mistakes[], sb_slips[], sb_spoils[];

/* NULL: the list has none of that name. */
const sb_planted *sb_planted_find(const sb_planted *list, const char *name);

#endif

/* faults.h - the list of faults: the fault, the vehicle in which it is planted, and the signs that
 * have to name it.
 *
 * lists/incidents.def has the faults of incidents, lists/sites.def those of one place and the
 * correct engines. The rest comes from the other lists (planted.h) and from the kernels' list
 * (kernels.h). */
#ifndef SB_FAULT_FAULTS_H
#define SB_FAULT_FAULTS_H

#include <stddef.h>

#include "ref/base/status.h"

typedef enum sb_fault_plant {
    SB_PLANT_op,      /* arg: a row of ops.def */
    SB_PLANT_special, /* a row of special.def */
    SB_PLANT_mistake, /* a row of mistakes.def */
    SB_PLANT_slip,    /* a row of slips.def */
    SB_PLANT_hit,     /* a row of hits.def */
    SB_PLANT_knob,    /* knobs of the engine alone */
    SB_PLANT_edit,    /* edits of the engine's checkpoint (edit.h) */
    SB_PLANT_file,    /* the same, and `samebit check` examines the files */
    SB_PLANT_trace,   /* a row of spoil.def */
    SB_PLANT_kernel,  /* a row of gpu/kernel/plants.def; "emu:SEED": no fault */
    SB_PLANT_feed,    /* after a round, another token is fed than the emitted one */
    SB_PLANT_self,    /* the reference poses as another engine */
    SB_PLANT_engine,  /* "OP ENGINE": one op of another engine (sims.def) */
    SB_PLANT_draw,    /* a row of draws.def */
    SB_PLANT_drafter, /* a row of drafters.def */
    SB_PLANT_none,    /* cannot be planted here; reason in `words` */
    SB_PLANT_covered  /* another test plants it; named in `words` */
} sb_fault_plant;
const char *sb_fault_plant_name(sb_fault_plant plant);

typedef struct sb_fault {
    char name[64];
    const char *origin; /* "F08", or the public incident; "" for a generated fault */
    sb_fault_plant plant;
    const char *arg;
    const char *vehicle; /* "T1 bf16 mistakes": preset, format, recipe */
    const char *setting; /* profile and knobs of both sides, "a=b c=d"; "": exact */
    const char *script;  /* a row of script_of in campaign.c */
    const char *fires;   /* signs (sign.h) between blanks: all have to fire; a|b: one of them */
    const char *quiet;   /* signs that must not fire */
    const char *words;
    int benign;       /* a correct engine: only the signs of `fires` may fire */
    const char *site; /* the only place where it is planted (site.h); NULL: everywhere */
} sb_fault;

typedef struct sb_faults {
    sb_fault *items;
    size_t count, room;
} sb_faults;

sb_status sb_faults_list(sb_faults *out, sb_error *err);
void sb_faults_free(sb_faults *faults);

/* The reason why it is not planted here; NULL if it is. */
const char *sb_fault_why_not(const sb_fault *fault);

/* 1 if a pattern ("F08", "op.linear.sign", "op.linear.*", or an origin) matches the fault. */
int sb_fault_matches(const sb_fault *fault, const char *pattern);

#endif

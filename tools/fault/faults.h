/* faults.h - the list of faults: what is planted, in which vehicle, and which check must name it.
 *
 * lists/incidents.def has those of incidents, lists/sites.def those of one place, and correct
 * engines; the rest comes from the other lists (planted.h) and from the kernels' (kernels.h). */
#ifndef SB_FAULT_FAULTS_H
#define SB_FAULT_FAULTS_H

#include <stddef.h>

#include "ref/base/status.h"

typedef enum sb_fault_plant {
    SB_PLANT_op,      /* arg: of ops.def */
    SB_PLANT_special, /* of special.def */
    SB_PLANT_mistake, /* of mistakes.def */
    SB_PLANT_slip,    /* of slips.def */
    SB_PLANT_knob,    /* settings that the engine alone has */
    SB_PLANT_edit,    /* edits of the engine's checkpoint (edit.h) */
    SB_PLANT_file,    /* the same, and `samebit check` is asked about the files */
    SB_PLANT_trace,   /* of spoil.def */
    SB_PLANT_kernel,  /* of gpu/kernel/plants.def; or none, and "emu:SEED" */
    SB_PLANT_feed,    /* behind a round another token is fed than was emitted */
    SB_PLANT_self,    /* the reference passes for another engine */
    SB_PLANT_engine,  /* "OP ENGINE": an op is that of another engine (sims.def) */
    SB_PLANT_none,    /* cannot be planted here: the reason stands in `words` */
    SB_PLANT_covered  /* another test plants it: which stands in `words` */
} sb_fault_plant;
const char *sb_fault_plant_name(sb_fault_plant plant);

typedef struct sb_fault {
    char name[64];
    const char *origin; /* "F08", or the public incident; "" of a generated one */
    sb_fault_plant plant;
    const char *arg;
    const char *vehicle; /* "T1 bf16 mistakes": preset, format, recipe */
    const char *setting; /* of both sides: a profile and knobs, "a=b c=d"; "": exact */
    const char *script;  /* a row of script_of in campaign.c */
    const char
        *fires; /* signs (sign.h), separated by blanks: all must be there; a|b: one of them */
    const char *quiet; /* none of these may */
    const char *words;
    int benign;       /* a correct engine: nothing may fire but what `fires` says */
    const char *site; /* where alone it is planted (site.h); NULL: everywhere */
} sb_fault;

typedef struct sb_faults {
    sb_fault *items;
    size_t count, room;
} sb_faults;

sb_status sb_faults_list(sb_faults *out, sb_error *err);
void sb_faults_free(sb_faults *faults);

/* Why it is not planted here; NULL if it is. */
const char *sb_fault_why_not(const sb_fault *fault);

/* "F08", "op.linear.sign", "op.linear.*", or an origin: 1 if the fault is meant. */
int sb_fault_matches(const sb_fault *fault, const char *pattern);

#endif

/* knobs.h - the roundings and forms under which the ops run. */
#ifndef SB_OPS_KNOBS_H
#define SB_OPS_KNOBS_H

#include <stddef.h>

#include "ref/base/status.h"
#include "ref/formats/formats.h"

#ifdef __cplusplus
extern "C" {
#endif

/* More than there are knobs. With this fixed size, a row more or less changes nothing here. */
enum { SB_KNOBS_MAX = 96 };

/* A value for each knob: an sb_knob_value at the place of its sb_knob (knob.h). */
typedef struct sb_knobs {
    unsigned value[SB_KNOBS_MAX];
} sb_knobs;

/* K-30: "Engines run different kernels for a prompt, for a decode step and for a verify" */
typedef enum sb_form { SB_FORM_prompt, SB_FORM_decode, SB_FORM_verify } sb_form;

/* The knobs of profile `exact`: the first value of each. */
void sb_knobs_exact(sb_knobs *knobs);

/* Sets all knobs to the values of a named profile; SB_ERR_USAGE lists the profiles. */
sb_status sb_knobs_profile(sb_knobs *knobs, const char *profile, sb_error *err);

/* Sets one knob from the text "knob=value"; SB_ERR_USAGE lists the choices. */
sb_status sb_knobs_set(sb_knobs *knobs, const char *assignment, sb_error *err);

size_t sb_profile_count(void);
const char *sb_profile_name(size_t i);
const char *sb_profile_help(size_t i);

/* True if a verify has a state after each row, because its delta rule is the recurrent form. */
int sb_knobs_have_row_states(const sb_knobs *knobs);

/* True if S-2 holds for any split of a sequence into calls. */
int sb_knobs_split_anywhere(const sb_knobs *knobs);

/* The activation type of K-1. */
sb_format sb_act_format(const sb_knobs *knobs);

/* R of the specification. */
float sb_act(const sb_knobs *knobs, float x);

#ifdef __cplusplus
}
#endif

#endif

/* knobs.h - the table of roundings and forms under which the ops run. */
#ifndef SB_OPS_KNOBS_H
#define SB_OPS_KNOBS_H

#include <stddef.h>

#include "ref/base/status.h"
#include "ref/formats/format.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sb_knob {
#define SB_KNOB(name, clause, help) SB_KNOB_##name,
#define SB_VALUE(knob, value)
#include "ref/ops/knobs.def"
#undef SB_KNOB
#undef SB_VALUE
    SB_KNOB_COUNT
} sb_knob;

/* The values of all knobs in one numbering: SB_act_bf16, SB_delta_rule_chunk64, ... */
typedef enum sb_knob_value {
#define SB_KNOB(name, clause, help)
#define SB_VALUE(knob, value) SB_##knob##_##value,
#include "ref/ops/knobs.def"
#undef SB_KNOB
#undef SB_VALUE
    SB_VALUE_COUNT
} sb_knob_value;

typedef struct sb_knobs {
    sb_knob_value value[SB_KNOB_COUNT];
} sb_knobs;

/* True if the knob has this value: SB_IS(knobs, beta, act). */
#define SB_IS(knobs, knob, setting) ((knobs)->value[SB_KNOB_##knob] == SB_##knob##_##setting)

/* K-30: "Engines run different kernels for a prompt, for a decode step and for a verify" */
typedef enum sb_form { SB_FORM_prompt, SB_FORM_decode, SB_FORM_verify } sb_form;

/* The knobs of profile `exact`: the first value of each. */
void sb_knobs_exact(sb_knobs *knobs);

/* The first knob whose values in a and b differ; SB_KNOB_COUNT if all are equal. */
sb_knob sb_knobs_first_other(const sb_knobs *a, const sb_knobs *b);

/* Sets all knobs to the values of a named profile; SB_ERR_USAGE lists the profiles. */
sb_status sb_knobs_profile(sb_knobs *knobs, const char *profile, sb_error *err);

/* Sets one knob from the text "knob=value"; SB_ERR_USAGE lists the choices. */
sb_status sb_knobs_set(sb_knobs *knobs, const char *assignment, sb_error *err);

const char *sb_knob_name(sb_knob knob);
const char *sb_knob_clause(sb_knob knob);
const char *sb_knob_help(sb_knob knob);
const char *sb_knob_value_name(sb_knob_value value);
sb_knob sb_knob_of_value(sb_knob_value value);

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

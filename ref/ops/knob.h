/* knob.h - the knobs and their values by name, one of each per row of knobs.def. Code that only
 * passes knobs on includes knobs.h, so that it need not be compiled again when a row changes. */
#ifndef SB_OPS_KNOB_H
#define SB_OPS_KNOB_H

#include "ref/ops/knobs.h"

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

/* True if the knob has this value: SB_IS(knobs, beta, act). */
#define SB_IS(knobs, knob, setting) ((knobs)->value[SB_KNOB_##knob] == SB_##knob##_##setting)

const char *sb_knob_name(sb_knob knob);
const char *sb_knob_clause(sb_knob knob);
const char *sb_knob_help(sb_knob knob);
const char *sb_knob_value_name(sb_knob_value value);
sb_knob sb_knob_of_value(sb_knob_value value);

/* The first knob whose values in a and b differ; SB_KNOB_COUNT if all are equal. */
sb_knob sb_knobs_first_other(const sb_knobs *a, const sb_knobs *b);

#ifdef __cplusplus
}
#endif

#endif

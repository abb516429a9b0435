/* form.h - the form of a call for the ops of linear attention, and the positions of the MTP head.
 * Used by all code that runs layers. */
#ifndef SB_RUN_FORM_H
#define SB_RUN_FORM_H

#include "ref/model/config.h"
#include "ref/ops/knob.h"
#include "ref/run/hook.h"

/* K-30: "A verify is a call of a round, unless it has a single row on a sequence that has a state,
 * which makes it a decode step" */
static inline sb_form sb_form_of(sb_call_kind kind)
{
    if (kind == SB_CALL_verify)
        return SB_FORM_verify;
    return kind == SB_CALL_decode ? SB_FORM_decode : SB_FORM_prompt;
}

/* K-15: "by_call is recurrent for a call of one row on a sequence that has a state, R-10 for every
 * other call; by_rows is recurrent for every call of one row, R-10 for every other"
 * S-3: "holds only for splits that change neither the cut into chunks of R-10, nor the choice of
 * form" */
static inline int sb_takes_chunks(const sb_knobs *knobs, sb_call_kind kind, size_t rows,
                                  int is_first)
{
    switch ((int)knobs->value[SB_KNOB_delta_rule]) {
    case SB_delta_rule_recurrent:
        return 0;
    case SB_delta_rule_by_call:
        return rows != 1 || is_first;
    case SB_delta_rule_by_rows:
        return rows != 1;
    case SB_delta_rule_prompt_fla:
        return sb_form_of(kind) == SB_FORM_prompt;
    default:
        return 1; /* chunk64, chunk_fla */
    }
}

/* K-32: "eps is 10^-6, and rms_norm_eps of the configuration in max_norm" */
static inline float sb_l2norm_eps(const sb_knobs *knobs, const sb_config *config)
{
    return SB_IS(knobs, l2norm, max_norm) ? config->eps_f32 : 1e-6f;
}

/* K-27: "zeros has one more entry before all others: the pair of the zero vector and x_0, at
 * position 0"
 * K-26: "hidden gives the pair (h_t, x_{t+1}) the rotary position t, token gives it t + 1"
 * The position of an entry is its number plus this shift, and never below 0. */
static inline int sb_mtp_position_shift(const sb_knobs *knobs)
{
    return (SB_IS(knobs, mtp_first, zeros) ? 0 : 1) - (SB_IS(knobs, mtp_position, token) ? 0 : 1);
}

#endif

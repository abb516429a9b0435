/* form.h - the knobs of linear attention that depend on the form of a call (K-30). */
#ifndef SB_OPS_FORM_H
#define SB_OPS_FORM_H

#include <stddef.h>

#include "ref/ops/knob.h"

/* K-31: "act, in every call; or act_steps, in decode steps and verifies" */
static inline int sb_conv_rounds_products(const sb_knobs *knobs, sb_form form)
{
    return SB_IS(knobs, conv_product, act) ||
           (SB_IS(knobs, conv_product, act_steps) && form != SB_FORM_prompt);
}

/* K-4: "vllm is log_exp_abs for a prompt, else log_exp" */
static inline sb_knob_value sb_softplus_of(const sb_knobs *knobs, sb_form form)
{
    if (!SB_IS(knobs, softplus, vllm))
        return (sb_knob_value)knobs->value[SB_KNOB_softplus];
    return form == SB_FORM_prompt ? SB_softplus_log_exp_abs : SB_softplus_log_exp;
}

/* K-5: "act to round beta to the activation type, act_decode in decode steps only, act_prompt in
 * prompts only" */
static inline int sb_beta_rounds(const sb_knobs *knobs, sb_form form)
{
    return SB_IS(knobs, beta, act) || (SB_IS(knobs, beta, act_decode) && form == SB_FORM_decode) ||
           (SB_IS(knobs, beta, act_prompt) && form == SB_FORM_prompt);
}

/* K-32: "vllm is reciprocal for a prompt, divide for a decode step, rsqrt for a verify" */
static inline sb_knob_value sb_l2norm_of(const sb_knobs *knobs, sb_form form)
{
    if (!SB_IS(knobs, l2norm, vllm))
        return (sb_knob_value)knobs->value[SB_KNOB_l2norm];
    if (form == SB_FORM_prompt)
        return SB_l2norm_reciprocal;
    return form == SB_FORM_decode ? SB_l2norm_divide : SB_l2norm_rsqrt;
}

/* K-33: "act to round x n to the activation type before queries are scaled, act_prompt in prompts
 * only" */
static inline int sb_l2norm_rounds(const sb_knobs *knobs, sb_form form)
{
    return SB_IS(knobs, l2norm_round, act) ||
           (SB_IS(knobs, l2norm_round, act_prompt) && form == SB_FORM_prompt);
}

/* True if calls in chunks use R-22 instead of R-10. */
static inline int sb_chunks_are_fla(const sb_knobs *knobs)
{
    return SB_IS(knobs, delta_rule, chunk_fla) || SB_IS(knobs, delta_rule, prompt_fla);
}

/* K-16: "output leaves q unscaled, and the output of the rule is multiplied before R"; R-22 always
 * scales the output. */
static inline int sb_scales_output(const sb_knobs *knobs, int recurrent)
{
    return SB_IS(knobs, q_scale, output) || (!recurrent && sb_chunks_are_fla(knobs));
}

/* K-35: "act rounds every state that a call leaves, and the states kept between the rows of a
 * verify; the verify itself goes on with the unrounded states"; `to` may be `from`. */
static inline void sb_keep_state(const sb_knobs *knobs, const float *from, size_t n, float *to)
{
    int rounds = SB_IS(knobs, delta_state, act);
    for (size_t i = 0; i < n; i++)
        to[i] = rounds ? sb_act(knobs, from[i]) : from[i];
}

/* K-4: softplus in the form that sb_softplus_of chooses (gates.c). */
float sb_softplus_form(sb_knob_value form, float x);

#endif

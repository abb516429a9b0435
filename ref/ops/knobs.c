#include "ref/formats/format.h"
#include "ref/ops/knob.h"

#include <stdio.h>
#include <string.h>

_Static_assert((int)SB_KNOB_COUNT <= (int)SB_KNOBS_MAX, "raise SB_KNOBS_MAX");

static const struct {
    const char *name, *clause, *help;
} knob_rows[] = {
#define SB_KNOB(name, clause, help) {#name, clause, help},
#define SB_VALUE(knob, value)
#include "ref/ops/knobs.def"
#undef SB_KNOB
#undef SB_VALUE
};

static const struct {
    sb_knob knob;
    const char *name;
} value_rows[] = {
#define SB_KNOB(name, clause, help)
#define SB_VALUE(knob, value) {SB_KNOB_##knob, #value},
#include "ref/ops/knobs.def"
#undef SB_KNOB
#undef SB_VALUE
};

static const struct {
    const char *name, *help;
} profile_rows[] = {
#define SB_PROFILE(name, help) {#name, help},
#define SB_SET(profile, knob, value)
#include "ref/ops/profiles.def"
#undef SB_PROFILE
#undef SB_SET
};

static const struct {
    const char *profile;
    sb_knob_value value;
} profile_settings[] = {
#define SB_PROFILE(name, help)
#define SB_SET(profile, knob, value) {#profile, SB_##knob##_##value},
#include "ref/ops/profiles.def"
#undef SB_PROFILE
#undef SB_SET
};

void sb_knobs_exact(sb_knobs *knobs)
{
    *knobs = (sb_knobs){{0}};
    for (unsigned v = SB_VALUE_COUNT; v-- > 0;)
        knobs->value[value_rows[v].knob] = v; /* backwards: the first value is written last */
}

sb_knob sb_knobs_first_other(const sb_knobs *a, const sb_knobs *b)
{
    int i = 0;
    while (i < SB_KNOB_COUNT && a->value[i] == b->value[i])
        i++;
    return (sb_knob)i;
}

sb_status sb_knobs_profile(sb_knobs *knobs, const char *profile, sb_error *err)
{
    char known[256] = "";
    for (size_t i = 0; i < sb_profile_count(); i++) {
        if (strcmp(profile, profile_rows[i].name) == 0) {
            sb_knobs_exact(knobs);
            for (size_t s = 0; s < sizeof profile_settings / sizeof *profile_settings; s++)
                if (strcmp(profile_settings[s].profile, profile) == 0)
                    knobs->value[value_rows[profile_settings[s].value].knob] =
                        profile_settings[s].value;
            return SB_OK;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", profile_rows[i].name);
    }
    return sb_fail(err, SB_ERR_USAGE, "there is no profile '%s'; the profiles are: %s", profile,
                   known);
}

/* Lists the values of one knob for a message. */
static void list_values(sb_knob knob, char *text, size_t size)
{
    text[0] = '\0';
    for (unsigned v = 0; v < SB_VALUE_COUNT; v++)
        if (value_rows[v].knob == knob) {
            size_t used = strlen(text);
            snprintf(text + used, size - used, "%s%s", used ? ", " : "", value_rows[v].name);
        }
}

sb_status sb_knobs_set(sb_knobs *knobs, const char *assignment, sb_error *err)
{
    const char *equals = strchr(assignment, '=');
    size_t name_length = equals ? (size_t)(equals - assignment) : strlen(assignment);
    char known[900] = "";
    for (unsigned k = 0; k < SB_KNOB_COUNT; k++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", k ? ", " : "", knob_rows[k].name);
        if (strlen(knob_rows[k].name) != name_length ||
            strncmp(knob_rows[k].name, assignment, name_length) != 0)
            continue;
        for (unsigned v = 0; equals && v < SB_VALUE_COUNT; v++)
            if (value_rows[v].knob == k && strcmp(value_rows[v].name, equals + 1) == 0) {
                knobs->value[k] = v;
                return SB_OK;
            }
        list_values((sb_knob)k, known, sizeof known);
        return sb_fail(err, SB_ERR_USAGE, "knob '%s' has no value '%s'; its values are: %s",
                       knob_rows[k].name, equals ? equals + 1 : "", known);
    }
    return sb_fail(err, SB_ERR_USAGE, "there is no knob '%.*s'; the knobs are: %s",
                   (int)name_length, assignment, known);
}

const char *sb_knob_name(sb_knob knob)
{
    return knob_rows[knob].name;
}

const char *sb_knob_clause(sb_knob knob)
{
    return knob_rows[knob].clause;
}

const char *sb_knob_help(sb_knob knob)
{
    return knob_rows[knob].help;
}

const char *sb_knob_value_name(sb_knob_value value)
{
    return value_rows[value].name;
}

sb_knob sb_knob_of_value(sb_knob_value value)
{
    return value_rows[value].knob;
}

size_t sb_profile_count(void)
{
    return sizeof profile_rows / sizeof *profile_rows;
}

const char *sb_profile_name(size_t i)
{
    return profile_rows[i].name;
}

const char *sb_profile_help(size_t i)
{
    return profile_rows[i].help;
}

/* K-15: "prompt_fla is R-22 for a prompt, recurrent for a decode step and a verify" */
int sb_knobs_have_row_states(const sb_knobs *knobs)
{
    return SB_IS(knobs, delta_rule, recurrent) || SB_IS(knobs, delta_rule, prompt_fla);
}

/* S-3: "With any delta_rule other than recurrent, or with a knob that follows K-30 or rounds the
 * state (K-35)" */
int sb_knobs_split_anywhere(const sb_knobs *knobs)
{
    static const sb_knob_value follow[] = {
        SB_conv_product_act_steps, SB_l2norm_vllm,     SB_l2norm_round_act_prompt, SB_softplus_vllm,
        SB_beta_act_decode,        SB_beta_act_prompt, SB_delta_state_act};
    for (size_t i = 0; i < sizeof follow / sizeof *follow; i++)
        if (knobs->value[sb_knob_of_value(follow[i])] == follow[i])
            return 0;
    return SB_IS(knobs, delta_rule, recurrent);
}

/* K-1: "the activation type, to which R rounds: f32, bf16 or f16" */
sb_format sb_act_format(const sb_knobs *knobs)
{
    if (SB_IS(knobs, act, bf16))
        return SB_FORMAT_bf16;
    return SB_IS(knobs, act, f16) ? SB_FORMAT_f16 : SB_FORMAT_f32;
}

float sb_act(const sb_knobs *knobs, float x)
{
    return sb_round_to(sb_act_format(knobs), x);
}

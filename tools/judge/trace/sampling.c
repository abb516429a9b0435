#include "tools/judge/trace/sampling.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const sb_setting_row settings[SB_SETTINGS] = {
#define SB_SETTING(name_, least_, most_, whole_, off_, words)                                      \
    {.name = #name_, .range = words, .least = least_, .most = most_, .off = off_, .whole = whole_},
#include "tools/judge/trace/settings.def"
#undef SB_SETTING
};

static const sb_sampler_order samplers[SB_SAMPLERS] = {
    {.name = ""},
#define SB_SAMPLER(name_, steps_, generated_, rounding_, words)                                    \
    {.name = #name_, .steps = steps_, .generated = generated_, .rounding = rounding_},
#include "tools/judge/trace/samplers.def"
#undef SB_SAMPLER
};

static const char *const generators[SB_GENERATORS] = {
    "",
#define SB_GENERATOR(name, words) #name,
#include "tools/judge/trace/generators.def"
#undef SB_GENERATOR
};

const sb_setting_row *sb_setting_at(sb_setting setting)
{
    return &settings[setting];
}

const sb_sampler_order *sb_sampler_order_of(sb_trace_sampler sampler)
{
    return sampler == SB_SAMPLER_unknown ? NULL : &samplers[sampler];
}

const char *sb_trace_sampler_name(sb_trace_sampler sampler)
{
    return samplers[sampler].name;
}

const char *sb_trace_generator_name(sb_trace_generator generator)
{
    return generators[generator];
}

int sb_trace_sampler_named(const char *text, sb_trace_sampler *out)
{
    for (unsigned i = 1; i < SB_SAMPLERS; i++)
        if (strcmp(text, samplers[i].name) == 0) {
            *out = (sb_trace_sampler)i;
            return 1;
        }
    return 0;
}

int sb_trace_generator_named(const char *text, sb_trace_generator *out)
{
    for (unsigned i = 1; i < SB_GENERATORS; i++)
        if (strcmp(text, generators[i]) == 0) {
            *out = (sb_trace_generator)i;
            return 1;
        }
    return 0;
}

/* Without a window, penalties count all tokens. */
static int is_open(const sb_step_sampling *s, unsigned i)
{
    return !s->has[i] && i != SB_SETTING_penalty_window;
}

int sb_sampling_is_open(const sb_step_sampling *s)
{
    for (unsigned i = 0; i < SB_SETTINGS; i++)
        if (is_open(s, i))
            return 1;
    return s->sampler == SB_SAMPLER_unknown;
}

/* Appends to a text of at most `room` bytes. */
static void add(char *out, size_t room, const char *text)
{
    size_t used = strlen(out);
    snprintf(out + used, room - used, "%s%s", used ? ", " : "", text);
}

void sb_sampling_text(const sb_step_sampling *s, int with_off, char *out, size_t room)
{
    char part[80];
    *out = '\0';
    for (unsigned i = 0; i < SB_SETTINGS; i++) {
        snprintf(part, sizeof part, "%s %.7g", settings[i].name, s->value[i]);
        if (s->has[i] && (with_off || s->value[i] != settings[i].off))
            add(out, room, part);
    }
    snprintf(part, sizeof part, "sampler %s", samplers[s->sampler].name);
    if (s->sampler)
        add(out, room, part);
    snprintf(part, sizeof part, "generator %s", generators[s->generator]);
    if (s->generator)
        add(out, room, part);
    snprintf(part, sizeof part, "seed %" PRIu64, s->seed);
    if (s->seed_kind)
        add(out, room, s->seed_kind == SB_SEED_own ? "a seed of its own" : part);
}

void sb_sampling_lacks(const sb_step_sampling *s, char *out, size_t room)
{
    *out = '\0';
    for (unsigned i = 0; i < SB_SETTINGS; i++)
        if (is_open(s, i))
            add(out, room, settings[i].name);
    if (!s->sampler)
        add(out, room, "sampler");
}

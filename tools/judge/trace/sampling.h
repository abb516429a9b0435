/* sampling.h - what a trace declares of the sampler of a sequence (U-12). */
#ifndef SB_TRACE_SAMPLING_H
#define SB_TRACE_SAMPLING_H

#include <stddef.h>
#include <stdint.h>

typedef enum sb_setting {
#define SB_SETTING(name, least, most, whole, off, words) SB_SETTING_##name,
#include "tools/judge/trace/settings.def"
#undef SB_SETTING
    SB_SETTINGS
} sb_setting;

typedef enum sb_trace_sampler {
    SB_SAMPLER_unknown,
#define SB_SAMPLER(name, steps, generated, rounding, words) SB_SAMPLER_##name,
#include "tools/judge/trace/samplers.def"
#undef SB_SAMPLER
    SB_SAMPLERS
} sb_trace_sampler;

typedef enum sb_trace_generator {
    SB_GENERATOR_unknown,
#define SB_GENERATOR(name, words) SB_GENERATOR_##name,
#include "tools/judge/trace/generators.def"
#undef SB_GENERATOR
    SB_GENERATORS
} sb_trace_generator;

/* U-12: "a number below 2^63, or null" */
typedef enum sb_seed_kind { SB_SEED_unknown, SB_SEED_own, SB_SEED_number } sb_seed_kind;

/* One entry of a step's list `sampling`. */
typedef struct sb_step_sampling {
    uint32_t sequence;
    int has[SB_SETTINGS];
    double value[SB_SETTINGS];
    sb_trace_sampler sampler;
    sb_trace_generator generator;
    sb_seed_kind seed_kind;
    uint64_t seed;
} sb_step_sampling;

/* A row of settings.def. */
typedef struct sb_setting_row {
    const char *name, *range;
    double least, most, off;
    int whole;
} sb_setting_row;
const sb_setting_row *sb_setting_at(sb_setting setting);

/* A row of samplers.def; NULL for unknown. */
typedef struct sb_sampler_order {
    const char *name, *steps;
    int generated;
    double rounding;
} sb_sampler_order;
const sb_sampler_order *sb_sampler_order_of(sb_trace_sampler sampler);

/* The words; "" for unknown. */
const char *sb_trace_sampler_name(sb_trace_sampler sampler);
const char *sb_trace_generator_name(sb_trace_generator generator);

/* 1, and sets *out, if `text` is such a word and not "". */
int sb_trace_sampler_named(const char *text, sb_trace_sampler *out);
int sb_trace_generator_named(const char *text, sb_trace_generator *out);

/* 1 if the settings that are not declared, or an unknown sampler, leave the distribution open. */
int sb_sampling_is_open(const sb_step_sampling *s);

/* "temperature 0.8, top_k 40, ..., sampler vllm, seed 42", without the sequence. with_off: also
 * settings that change nothing. */
void sb_sampling_text(const sb_step_sampling *s, int with_off, char *out, size_t room);

/* The settings that are not declared: "top_k, min_p"; "" if there are none. */
void sb_sampling_lacks(const sb_step_sampling *s, char *out, size_t room);

#endif

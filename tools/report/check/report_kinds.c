/* report_kinds.c - whether the files contain anything that a check can look at: a check with
 * nothing to look at has not passed. */
#include <string.h>

#include "tools/report/check/report.h"

typedef int (*has_fn)(const sb_unit *unit);

static const char *container_of(const sb_unit *unit)
{
    int known = !unit->tensor && unit->found.container < SB_CONTAINER_COUNT;
    return known ? sb_container_name(unit->found.container) : "";
}

/* 1 for a layer that cannot be read. Its intended format is unknown, so it counts for every
 * format. */
static int is_broken(const sb_unit *unit)
{
    return !unit->tensor && unit->status != SB_OK;
}

static int has_fp4(const sb_unit *unit)
{
    const char *name = container_of(unit);
    return is_broken(unit) || strncmp(name, "nvfp4", 5) == 0 || strcmp(name, "mxfp4") == 0;
}

static int has_fp8(const sb_unit *unit)
{
    const char *name = container_of(unit);
    return is_broken(unit) || strncmp(name, "fp8", 3) == 0 || strcmp(name, "mxfp8") == 0;
}

static int has_int(const sb_unit *unit)
{
    return is_broken(unit) || strncmp(container_of(unit), "int", 3) == 0;
}

static int has_quantized(const sb_unit *unit)
{
    return is_broken(unit) || sb_unit_quantized(unit);
}

static int has_input(const sb_unit *unit)
{
    return is_broken(unit) || unit->found.part[SB_PART_input_scale] ||
           unit->found.part[SB_PART_input_global_scale];
}

static int has_head(const sb_unit *unit)
{
    return unit->region == SB_REGION_mtp;
}

static int has_experts(const sb_unit *unit)
{
    return strstr(unit->kind, "experts") != NULL;
}

static int has_kv(const sb_unit *unit)
{
    return strstr(unit->name, "k_scale") || strstr(unit->name, "v_scale") ||
           strstr(unit->name, "proj.output_scale");
}

/* Checks first to last need the given kind of content; all other checks apply to every
 * checkpoint. */
static const struct {
    unsigned first, last;
    has_fn has;
    const char *lacks;
} kinds[] = {
    {8, 8, has_int, "no layer is stored in integers"},
    {15, 20, has_fp4, "no layer is stored in four-bit floats"},
    {22, 26, has_fp4, "no layer is stored in four-bit floats"},
    {27, 27, has_input, "no layer has an input scale"},
    {28, 32, has_fp8, "no layer is stored in eight-bit floats"},
    {33, 39, has_int, "no layer is stored in integers"},
    {41, 41, has_head, "there is no MTP head"},
    {43, 44, has_experts, "there are no experts"},
    {47, 47, has_kv, "there are no scales of a KV cache"},
    {48, 48, has_quantized, "no layer is quantized"},
};

/* V-9: "skipped without a configuration": these checks compare with what config.json implies. A
 * finding names the checks that lose only a part (check.c). */
const char *sb_lacks_for(const sb_check *check, unsigned number)
{
    static const unsigned asking[] = {3, 5, 6, 10, 50}, drafters[] = {57, 58, 60};
    if (check->self.is_drafter && number == 60 && !check->target.checkpoint)
        return "needs a target: samebit check CKPT --drafter DIR";
    for (size_t i = 0; !check->self.has_config && i < sizeof asking / sizeof *asking; i++)
        if (asking[i] == number)
            return "needs a configuration that can be read";
    for (size_t i = 0; check->self.is_drafter && !check->self.has_config &&
                       i < sizeof drafters / sizeof *drafters;
         i++)
        if (drafters[i] == number)
            return "needs a configuration that can be read";
    return NULL;
}

enum { KINDS = sizeof kinds / sizeof *kinds };

/* The row of kinds for a check; KINDS: none. */
static size_t kind_of(unsigned number)
{
    size_t k = 0;
    while (k < KINDS && (number < kinds[k].first || number > kinds[k].last))
        k++;
    return k;
}

static int has_kind(const sb_check *check, size_t k, int chosen)
{
    for (size_t i = 0; i < check->self.units.count; i++)
        if (kinds[k].has(&check->self.units.rows[i]) &&
            (!chosen || check->self.units.rows[i].chosen))
            return 1;
    return 0;
}

/* Checks of what no drafter has; and, with `drafters`, of what only drafters have. */
static int is_listed(unsigned number, int drafters)
{
    static const unsigned models[] = {5, 6, 10, 46}, own[] = {56, 57, 58, 59, 60};
    const unsigned *list = drafters ? own : models;
    const size_t n = drafters ? sizeof own / sizeof *own : sizeof models / sizeof *models;
    for (size_t i = 0; i < n; i++)
        if (list[i] == number)
            return 1;
    return 0;
}

const char *sb_nothing_for(const sb_check *check, unsigned number)
{
    if (!check->self.is_drafter && is_listed(number, 1))
        return "the folder is not a drafter";
    if (check->self.is_drafter && is_listed(number, 0))
        return "the folder is a drafter";
    if (number == SB_CHECK_NUMBER_51 && !check->side_files)
        return "there is no tokenizer, and there are no generation settings";
    /* V-152: "Without any hash the check has nothing to look at" */
    if (number == SB_CHECK_NUMBER_52 && !check->hub_files && !check->options->headers_only)
        return "no hash of the hub is stored beside any file";
    const size_t k = kind_of(number);
    return k < KINDS && !has_kind(check, k, 0) ? kinds[k].lacks : NULL;
}

int sb_in_sample(const sb_check *check, unsigned number)
{
    const size_t k = kind_of(number);
    return check->sample_units && (k == KINDS || has_kind(check, k, 1));
}

sb_report_extent sb_report_read(const sb_check *check)
{
    sb_report_extent out;
    if (check->options->sample)
        snprintf(out.text, sizeof out.text, "values of %zu of %zu layers and tensors",
                 check->sample_units, check->self.units.count);
    else
        snprintf(out.text, sizeof out.text, "%s",
                 check->options->headers_only ? "headers only" : "every byte");
    return out;
}

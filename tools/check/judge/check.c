#include "tools/check/read/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "ref/container/survey.h"
#include "ref/model/take.h"
#include "tools/check/scan/payload.h"
#include "tools/check/scan/scan_fit.h"
#include "tools/check/judge/wrong_original.h"
#include "tools/check/judge/drafter.h"

static const sb_check_row rows[] = {
#define SB_CHECK(number, id, worst, needs, title, engines, advice)                                 \
    {number, id, SB_LEVEL_##worst, SB_NEEDS_##needs, title, engines, advice},
#define SB_PASS(stage, name)
#include "tools/check/read/checks.def"
#undef SB_CHECK
#undef SB_PASS
};

const sb_check_row *sb_check_row_of(unsigned number)
{
    return number >= 1 && number <= SB_CHECK_LAST ? &rows[number - 1] : NULL;
}

unsigned sb_check_number(const char *text)
{
    char number[16];
    for (unsigned i = 1; i <= SB_CHECK_LAST; i++) {
        snprintf(number, sizeof number, "%u", i);
        if (strcmp(text, number) == 0 || strcmp(text, rows[i - 1].id) == 0)
            return i;
    }
    return 0;
}

void sb_check_find(sb_check *check, unsigned number, sb_level level, const char *tensor,
                   const char *format, ...)
{
    va_list args;
    if (!sb_check_wanted(check, number))
        return;
    /* V-161: "an ERROR becomes a WARN, and a WARN an INFO": units not read may be like this one */
    if (check->options->sample && sb_sample_says(number) == SB_SAMPLE_hints &&
        (level == SB_LEVEL_warn || level == SB_LEVEL_error))
        level--;
    va_start(args, format);
    sb_find_list(&check->findings, number, level, tensor, format, args);
    va_end(args);
}

/* V-9: "more matrices of experts than a checkpoint can have tensors" - then nothing is expected,
 * because the list of expected tensors would be endless. */
static int is_absurd(const sb_config *c)
{
    uint64_t layers = (uint64_t)c->layers + c->mtp_layers;
    return 3 * layers * c->experts > SB_MAX_TENSORS;
}

/* V-9: "an INFO lists what was not checked" - checks that cannot look at anything are skipped by
 * the report (sb_lacks_for); this names the checks that lose a part. */
static void tell_unseen(sb_check *check, const sb_side *side)
{
    if (!side->has_config)
        sb_check_find(check, 9, SB_LEVEL_info, "",
                      "the configuration cannot be read. It would say which tensors are missing "
                      "(check 4), which shapes the tensors must have (7, 39), which layers have a "
                      "KV cache (47), where q, k and v begin (21) and how many rows the embedding "
                      "has (51). The rest of these checks was made");
    if (!side->has_declared)
        sb_check_find(check, 9, SB_LEVEL_info, "",
                      "the declaration of the quantization cannot be read. No tensor was compared "
                      "with it (checks 8, 9, 27, 32, 33, 37, 47), and the program that wrote the "
                      "scales is unknown (29, 30)");
}

/* Reads config.json and the declarations. A file that cannot be read is a finding of check 9. */
static sb_status read_config(sb_check *check, sb_side *side, int tell, sb_error *err)
{
    sb_error why;
    const char *folder = sb_checkpoint_folder(side->checkpoint);
    if (sb_eagle3_in(folder))
        return sb_drafter_config(check, side, tell, err);
    char *path = sb_path_join(folder, "config.json");
    if (!path)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(folder));
    sb_status status = sb_config_load(path, &side->config, &why);
    side->has_config = status == SB_OK;
    if (!status && is_absurd(&side->config)) {
        side->has_config = 0;
        if (tell)
            sb_check_find(check, 9, SB_LEVEL_fatal, "",
                          "%u layers of %u experts need more matrices than the %d tensors that a "
                          "checkpoint may have",
                          (unsigned)side->config.layers, (unsigned)side->config.experts,
                          SB_MAX_TENSORS);
        side->config = (sb_config){0};
    }
    if (status && tell && status != SB_ERR_MEMORY)
        sb_check_find(check, 9, SB_LEVEL_fatal, "", "%s", why.text);
    check->unread |= status == SB_ERR_IO && access(path, F_OK) == 0;
    if (status != SB_ERR_MEMORY && access(path, F_OK) == 0) {
        status = sb_declared_load(folder, &side->declared, &why);
        side->has_declared = status == SB_OK;
        check->unread |= status == SB_ERR_IO;
        if (status == SB_ERR_UNSUPPORTED && sb_declared_is_mlx(folder)) {
            free(path); /* no finding about another layout would be true */
            return sb_fail(err, status, "%s", why.text);
        }
        if (status && tell && status != SB_ERR_MEMORY && side->has_config)
            sb_check_find(check, 9, SB_LEVEL_error, "", "%s", why.text);
    }
    if (tell)
        tell_unseen(check, side);
    free(path);
    return status == SB_ERR_MEMORY ? sb_fail(err, status, "%s", why.text) : SB_OK;
}

static void no_problem(void *ctx, sb_problem problem, const char *file, const char *tensor,
                       const char *message)
{
    (void)ctx, (void)problem, (void)file, (void)tensor, (void)message;
}

static void tell_problem(void *ctx, sb_problem problem, const char *file, const char *tensor,
                         const char *message)
{
    sb_check_problem(ctx, (int)problem, file, tensor, message);
}

static sb_status open_side(sb_check *check, sb_side *side, const char *path, int tell,
                           sb_error *err)
{
    sb_status status =
        sb_checkpoint_survey(path, tell ? tell_problem : no_problem, check, &side->checkpoint, err);
    if (status == SB_ERR_INPUT && tell && check->findings.count)
        sb_fail(err, status, "%s: %s", SB_SHOW(path), check->findings.rows[0].message);
    for (size_t i = 0; tell && !status && i < check->options->overlay_count; i++)
        status = sb_take_overlay_text(side->checkpoint, check->options->overlays[i], err);
    if (!status)
        status = read_config(check, side, tell, err);
    if (!status && side->has_config && !side->is_drafter)
        status = sb_take_head(side->checkpoint, &side->config, err);
    if (!status)
        status = sb_units_make(side->checkpoint, side->has_config ? &side->config : NULL,
                               side->is_drafter ? &side->drafter : NULL, side->declared,
                               check->options->headers_only || check->options->sample, NULL,
                               &side->units, err);
    return status || !side->is_drafter ? status : sb_drafter_formats(side, err);
}

/* Opens the target of a drafter, whose configuration must be readable. */
static sb_status open_target(sb_check *check, sb_error *err)
{
    const char *path = check->options->target;
    sb_config unused;
    sb_eagle3_config none;
    if (!check->self.is_drafter) {
        char *file = sb_path_join(sb_checkpoint_folder(check->self.checkpoint), "config.json");
        sb_status status = file ? sb_eagle3_config_load(file, &none, err)
                                : sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
        free(file);
        return status ? status
                      : sb_fail(err, SB_ERR_INPUT, "%s: is not a drafter",
                                SB_SHOW(sb_checkpoint_path(check->self.checkpoint)));
    }
    sb_status status = open_side(check, &check->target, path, 0, err);
    if (status)
        return status;
    if (check->target.is_drafter)
        return sb_fail(err, SB_ERR_INPUT, "%s: is a drafter itself; expected its target",
                       SB_SHOW(path));
    if (check->target.has_config)
        return SB_OK;
    char *file = sb_path_join(sb_checkpoint_folder(check->target.checkpoint), "config.json");
    status = file ? sb_config_load(file, &unused, err)
                  : sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    free(file);
    return status ? status : sb_fail(err, SB_ERR_INPUT, "%s: config.json is absurd", SB_SHOW(path));
}

/* The stages at which checks are made. */
enum { headers, across };

static void make_checks(sb_check *check, int stage)
{
    static const struct {
        int stage;
        void (*make)(sb_check *);
    } passes[] = {
#define SB_CHECK(...)
#define SB_PASS(stage, name) {stage, sb_check_##name},
#include "tools/check/read/checks.def"
#undef SB_CHECK
#undef SB_PASS
    };
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        if (passes[i].stage == stage)
            passes[i].make(check);
}

static int finding_order(const void *a, const void *b)
{
    const sb_finding *x = a, *y = b;
    if (x->check != y->check)
        return x->check < y->check ? -1 : 1;
    if (x->level != y->level)
        return x->level > y->level ? -1 : 1;
    int order = strcmp(x->tensor, y->tensor);
    return order ? order : strcmp(x->message, y->message);
}

static void drop_unwanted(sb_check *check)
{
    sb_findings *f = &check->findings;
    size_t kept = 0;
    for (size_t i = 0; i < f->count; i++) {
        if (sb_check_wanted(check, f->rows[i].check)) {
            f->rows[kept++] = f->rows[i];
            continue;
        }
        free(f->rows[i].tensor);
        free(f->rows[i].message);
    }
    f->count = kept;
}

sb_status sb_check_choose(const sb_check_options *options, sb_check *out, sb_error *err)
{
    *out = (sb_check){.options = options};
    sb_status status = open_side(out, &out->self, options->path, 0, err);
    if (!status)
        status = sb_sample_choose(&out->self.units, options->sample, &out->sample_units,
                                  &out->sample_bytes, err);
    return status;
}

/* Reads the values, and makes the checks that need them. */
static sb_status check_values(sb_check *check, sb_error *err)
{
    sb_status status = sb_check_payload(check, err);
    if (!status)
        make_checks(check, across);
    return status;
}

/* The same for the chosen units only. They are made anew, with what their values determine; the
 * checks see no others. */
static sb_status check_sample(sb_check *check, sb_error *err)
{
    sb_side *side = &check->self;
    sb_units all = side->units, some;
    sb_status status = sb_sample_choose(&all, check->options->sample, &check->sample_units,
                                        &check->sample_bytes, err);
    if (status)
        return status;
    status = sb_units_make(side->checkpoint, side->has_config ? &side->config : NULL, NULL,
                           side->declared, 0, &all, &some, err);
    side->units = some;
    if (!status)
        status = check_values(check, err);
    sb_units_free(&side->units);
    side->units = all;
    return status;
}

sb_status sb_check_run(const sb_check_options *options, sb_check *out, sb_error *err)
{
    *out = (sb_check){.options = options};
    sb_status status = open_side(out, &out->self, options->path, 1, err);
    if (!status && options->sample && out->self.is_drafter)
        status =
            sb_fail(err, SB_ERR_USAGE, "%s: a drafter is checked whole; --sample is for models",
                    SB_SHOW(options->path));
    if (!status && options->against)
        status = open_side(out, &out->master, options->against, 0, err);
    if (!status && options->target)
        status = open_target(out, err);
    if (status)
        return status;
    sb_check_original(out);
    make_checks(out, headers);
    if (options->sample)
        status = check_sample(out, err);
    else if (!options->headers_only)
        status = check_values(out, err);
    if (!status && (out->findings.lost || sb_declared_lost(out->self.declared)))
        status = sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for the findings",
                         SB_SHOW(options->path));
    drop_unwanted(out);
    if (out->findings.count)
        qsort(out->findings.rows, out->findings.count, sizeof *out->findings.rows, finding_order);
    return status;
}

static void free_side(sb_side *side)
{
    sb_units_free(&side->units);
    sb_declared_free(side->declared);
    sb_checkpoint_close(side->checkpoint);
}

void sb_check_free(sb_check *check)
{
    sb_findings_free(&check->findings);
    free_side(&check->self);
    free_side(&check->master);
    free_side(&check->stranger);
    free_side(&check->target);
    *check = (sb_check){0};
}

/* report_json.c - the report as one JSON document: docs/check.md lists its keys. */
#include <stdlib.h>

#include "tools/report/check/report.h"

/* Adds a member; sets *failed if the value could not be made. */
static void put(json_t *object, const char *key, json_t *value, int *failed)
{
    *failed |= !value || json_object_set_new(object, key, value) != 0;
}

static void append(json_t *array, json_t *value, int *failed)
{
    *failed |= !value || json_array_append_new(array, value) != 0;
}

static json_t *count(size_t n)
{
    return json_integer((json_int_t)n);
}

static json_t *levels(const size_t level[4], size_t more_warnings, int *failed)
{
    json_t *out = json_object();
    put(out, "fatal", count(level[SB_LEVEL_fatal]), failed);
    put(out, "error", count(level[SB_LEVEL_error]), failed);
    put(out, "warn", count(level[SB_LEVEL_warn] + more_warnings), failed);
    put(out, "info", count(level[SB_LEVEL_info]), failed);
    return out;
}

static json_t *finding_json(const sb_report *r, const sb_finding *f, int *failed)
{
    json_t *out = json_object();
    put(out, "check", json_integer((json_int_t)f->check), failed);
    put(out, "id", json_string(sb_check_row_of(f->check)->id), failed);
    put(out, "level", json_string(sb_level_name(f->level)), failed);
    put(out, "tensor", sb_report_string(f->tensor), failed);
    put(out, "message", sb_report_string(f->message), failed);
    put(out, "waived",
        f->waived ? sb_report_string(r->waivers->rows[f->waived - 1].why) : json_null(), failed);
    return out;
}

static json_t *check_json(const sb_report *r, unsigned number, int *failed)
{
    const sb_check_row *row = sb_check_row_of(number);
    const sb_report_check *c = &r->checks[number];
    json_t *out = json_object();
    put(out, "check", json_integer((json_int_t)number), failed);
    put(out, "id", json_string(row->id), failed);
    put(out, "state", json_string(sb_check_state_name(c->state)), failed);
    put(out, "title", json_string(row->title), failed);
    put(out, "counts", levels(c->level, 0, failed), failed);
    put(out, "waived", count(c->waived), failed);
    if (c->state == SB_STATE_found) {
        put(out, "engines", json_string(row->engines), failed);
        put(out, "advice", json_string(row->advice), failed);
    }
    return out;
}

static json_t *without_result(const sb_report *r, sb_check_state state, int *failed)
{
    json_t *out = json_array();
    for (unsigned i = 1; i <= SB_CHECK_LAST; i++) {
        if (r->checks[i].state != state)
            continue;
        json_t *row = json_object();
        put(row, "check", json_integer((json_int_t)i), failed);
        put(row, "id", json_string(sb_check_row_of(i)->id), failed);
        put(row, "why", json_string(r->checks[i].why), failed);
        append(out, row, failed);
    }
    return out;
}

static json_t *waivers_json(const sb_report *r, int *failed)
{
    static const char *const words[] = {"used", "unused", "FATAL only"};
    json_t *out = json_array();
    for (size_t i = 0; r->waivers && i < r->waivers->count; i++) {
        const sb_waiver *w = &r->waivers->rows[i];
        json_t *row = json_object();
        put(row, "line", json_integer((json_int_t)w->line), failed);
        put(row, "check", json_string(w->check ? sb_check_row_of(w->check)->id : "loaded"), failed);
        put(row, "tensors", sb_report_string(w->glob), failed);
        put(row, "why", sb_report_string(w->why), failed);
        put(row, "covered", count(w->covered), failed);
        put(row, "state",
            json_string(w->covered || sb_report_unused(r, w) ? words[sb_report_unused(r, w)]
                                                             : "its check was not made"),
            failed);
        append(out, row, failed);
    }
    return out;
}

static json_t *original_json(const sb_report *r, int *failed)
{
    json_t *out = json_object(), *names = json_array(), *roles = json_object();
    put(out, "path", sb_report_string(r->against), failed);
    for (size_t i = 0; i < r->shards.count; i++)
        append(names, sb_report_string(r->shards.names[i]), failed);
    put(out, "missing_files", names, failed);
    put(out, "stranger", json_boolean(r->check->stranger.checkpoint != NULL), failed);
    for (size_t i = 0; i < r->compared.role_count; i++) {
        char *name = sb_report_clean(r->compared.roles[i].name);
        *failed |= !name;
        if (name)
            put(roles, name, count(r->compared.roles[i].count), failed);
        free(name);
    }
    put(out, "not_compared", count(r->compared.not_compared), failed);
    put(out, "not_compared_roles", roles, failed);
    return out;
}

static json_t *part_json(const sb_mtp_part *part, int *failed)
{
    json_t *out = json_object();
    int there = part->container != SB_CONTAINER_COUNT;
    put(out, "part", json_string(part->name), failed);
    put(out, "container", there ? json_string(sb_container_name(part->container)) : json_null(),
        failed);
    put(out, "mixed", json_boolean(part->mixed), failed);
    put(out, "stacked", json_boolean(part->stacked), failed);
    put(out, "modules", count(part->modules), failed);
    put(out, "expected", count(part->expected), failed);
    return out;
}

json_t *sb_report_mtp_json(const sb_mtp_audit *a)
{
    int failed = 0;
    json_t *out = json_object(), *lines = json_array(), *faults = json_array(),
           *parts = json_array(), *settle = json_array();
    put(out, "verdict", json_string(sb_mtp_verdict_name(a->verdict)), &failed);
    put(out, "why", sb_report_string(a->why), &failed);
    put(out, "declared", json_boolean(a->declared), &failed);
    put(out, "layers", json_integer((json_int_t)a->layers), &failed);
    put(out, "tensors", json_integer((json_int_t)a->tensors), &failed);
    put(out, "fingerprint", sb_report_string(a->fingerprint), &failed);
    put(out, "found", json_integer((json_int_t)a->found), &failed);
    put(out, "implied", json_integer((json_int_t)a->implied), &failed);
    put(out, "model_found", json_integer((json_int_t)a->model_found), &failed);
    put(out, "model_implied", json_integer((json_int_t)a->model_implied), &failed);
    for (unsigned i = 0; i < SB_MTP_QUESTIONS; i++) {
        const sb_mtp_line *l = &a->lines[i];
        if (!l->key)
            continue;
        json_t *row = json_object();
        put(row, "question", json_string(l->key), &failed);
        put(row, "state", json_string(sb_mtp_state_name(l->state)), &failed);
        put(row, "text", sb_report_string(l->text), &failed);
        put(row, "findings", count(l->findings), &failed);
        append(lines, row, &failed);
    }
    put(out, "audit", lines, &failed);
    for (size_t i = 0; i < SB_MTP_PARTS; i++)
        if (a->parts[i].name)
            append(parts, part_json(&a->parts[i], &failed), &failed);
    put(out, "parts", parts, &failed);
    for (size_t i = 0; i < a->fault_count; i++) {
        const sb_loader_fault *f = a->faults[i];
        append(faults,
               json_pack("{s:s,s:s,s:s,s:s,s:b,s:s,s:s}", "engine", f->engine, "versions",
                         f->versions, "reference", f->reference, "dated", f->dated, "verified",
                         f->verified, "what", f->what, "layout", f->layout),
               &failed);
    }
    put(out, "for", a->engine ? json_string(a->engine->name) : json_null(), &failed);
    put(out, "suspects", faults, &failed);
    put(out, "next", sb_report_string(a->next), &failed);
    for (int i = 0; i < 2; i++)
        if (a->settle[i][0])
            append(settle, sb_report_string(a->settle[i]), &failed);
    put(out, "settle", settle, &failed);
    if (!failed)
        return out;
    json_decref(out);
    return NULL;
}

static void put_lists(const sb_report *r, json_t *document, int *failed)
{
    const sb_findings *f = &r->check->findings;
    json_t *findings = json_array(), *checks = json_array(), *looked = json_array();
    for (size_t i = 0; i < f->count; i++)
        append(findings, finding_json(r, &f->rows[i], failed), failed);
    put(document, "findings", findings, failed);
    for (unsigned i = 1; i <= SB_CHECK_LAST; i++)
        if (r->checks[i].state != SB_STATE_skipped && r->checks[i].state != SB_STATE_nothing) {
            append(checks, check_json(r, i, failed), failed);
            append(looked, json_integer((json_int_t)i), failed);
        }
    put(document, "checks", checks, failed);
    put(document, "looked", looked, failed);
    put(document, "skipped", without_result(r, SB_STATE_skipped, failed), failed);
    put(document, "nothing_to_look_at", without_result(r, SB_STATE_nothing, failed), failed);
    put(document, "waivers", waivers_json(r, failed), failed);
}

/* The names of the layers and tensors whose values were read. */
static json_t *sample_json(const sb_check *c, int *failed)
{
    json_t *out = json_object(), *names = json_array();
    put(out, "asked", count(c->options->sample), failed);
    put(out, "units", count(c->sample_units), failed);
    put(out, "of", count(c->self.units.count), failed);
    put(out, "bytes", json_integer((json_int_t)c->sample_bytes), failed);
    for (size_t i = 0; i < c->self.units.count; i++)
        if (c->self.units.rows[i].chosen)
            append(names, sb_report_string(c->self.units.rows[i].name), failed);
    put(out, "read", names, failed);
    return out;
}

json_t *sb_report_json(const sb_report *r, json_t *document)
{
    int failed = !document;
    const sb_check *c = r->check;
    put(document, "checkpoint", sb_report_string(r->path), &failed);
    put(document, "tensors", count(sb_checkpoint_count(c->self.checkpoint)), &failed);
    put(document, "bytes", json_integer((json_int_t)sb_checkpoint_bytes(c->self.checkpoint)),
        &failed);
    put(document, "sample", c->options->sample ? sample_json(c, &failed) : json_null(), &failed);
    json_t *overlays = json_array();
    for (size_t i = 0; i < c->options->overlay_count; i++)
        append(overlays, sb_report_string(c->options->overlays[i]), &failed);
    put(document, "overlays", overlays, &failed);
    put(document, "against",
        c->master.checkpoint || c->stranger.checkpoint ? original_json(r, &failed) : json_null(),
        &failed);
    put(document, "target",
        c->target.checkpoint ? sb_report_string(sb_checkpoint_path(c->target.checkpoint))
                             : json_null(),
        &failed);
    const char *unseen = sb_report_unseen(r);
    put(document, "unseen", unseen ? json_string(unseen) : json_null(), &failed);
    put(document, "verdict", json_string(sb_check_verdict_name(r->verdict)), &failed);
    put(document, "mtp_verdict",
        r->mtp ? json_string(sb_mtp_verdict_name(r->mtp->verdict)) : json_null(), &failed);
    put(document, "need", sb_report_string(r->need), &failed);
    put(document, "counts", levels(r->level, r->unused_waivers, &failed), &failed);
    put(document, "waived", count(r->waived), &failed);
    put_lists(r, document, &failed);
    put(document, "mtp", r->mtp ? sb_report_mtp_json(r->mtp) : json_null(), &failed);
    put(document, "run", r->head ? sb_report_head_json(r->head) : json_null(), &failed);
    put(document, "loaded", r->loaded ? sb_report_loaded_json(r->loaded, r->waivers) : json_null(),
        &failed);
    if (!failed)
        return document;
    json_decref(document);
    return NULL;
}

/* read_list.c - reads trace.json. Checks every field, and names it in errors. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/spec.h"
#include "ref/container/show.h"
#include "tools/judge/trace/reader.h"
#include "tools/judge/trace/sampling_json.h"

typedef struct place {
    const char *file;
    size_t step, item;
    char path[64]; /* "steps[3].rows[2]" */
} place;

static sb_status no_memory(const char *file, sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for a trace", SB_SHOW(file));
}

/* --- fields ----------------------------------------------------------------------------------- */

static sb_status read_number(const sb_json_object *o, const char *key, uint64_t most, uint64_t *out,
                             sb_error *err)
{
    sb_status status = sb_json_u64(o, key, out, err);
    if (status || *out <= most)
        return status;
    return sb_json_fail(o, key, SB_ERR_INPUT, err, "is %" PRIu64 ", expected at most %" PRIu64,
                        *out, most);
}

static sb_status read_text(const sb_json_object *o, const char *key, char *out, size_t room,
                           sb_error *err)
{
    const char *text = "";
    sb_status status = sb_json_string_or(o, key, "", &text, err);
    if (!status && strlen(text) >= room)
        status = sb_json_fail(o, key, SB_ERR_INPUT, err, "has %zu bytes, expected fewer than %zu",
                              strlen(text), room);
    if (!status)
        memcpy(out, text, strlen(text) + 1);
    return status;
}

/* 32 lower-case hexadecimal digits; may be absent. */
static sb_status read_digest(const sb_json_object *o, const char *key, sb_digest *out, int *has,
                             sb_error *err)
{
    const char *text = "";
    sb_json_text room;
    sb_status status = sb_json_string_or(o, key, "", &text, err);
    *has = 0;
    if (status || !sb_json_get(o, key))
        return status;
    if (strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32)
        return sb_json_fail(o, key, SB_ERR_INPUT, err,
                            "is %s, expected 32 hexadecimal digits, in lower case",
                            sb_json_found(sb_json_get(o, key), &room));
    memcpy(out->hex, text, sizeof out->hex);
    *has = 1;
    return SB_OK;
}

/* --- the head --------------------------------------------------------------------------------- */

static sb_status read_format(const sb_json_object *o, sb_trace *t, sb_error *err)
{
    const char *format = "";
    uint64_t version = 0;
    sb_status status = sb_json_string(o, "format", &format, err);
    if (!status && strcmp(format, SB_TRACE_FORMAT) != 0)
        status = sb_json_fail(o, "format", SB_ERR_INPUT, err, "is \"%s\", expected \"%s\"",
                              SB_SHOW(format), SB_TRACE_FORMAT);
    if (!status)
        status = sb_json_u64(o, "version", &version, err);
    if (!status && (version < SB_TRACE_OLDEST || version > SB_TRACE_VERSION))
        status =
            sb_json_fail(o, "version", SB_ERR_UNSUPPORTED, err, "is %" PRIu64 ", expected %d to %d",
                         version, SB_TRACE_OLDEST, SB_TRACE_VERSION);
    t->head.version = (unsigned)version;
    if (!status)
        status = sb_json_u64_or(o, "spec", SB_SPEC_VERSION, &t->head.spec, err);
    if (!status && t->head.spec != SB_SPEC_VERSION)
        status = sb_json_fail(o, "spec", SB_ERR_UNSUPPORTED, err, "is %" PRIu64 ", expected %d",
                              t->head.spec, SB_SPEC_VERSION);
    return status;
}

static sb_status read_knobs(const sb_json_object *o, sb_trace *t, sb_error *err)
{
    json_t *knobs = sb_json_get(o, "knobs"), *value;
    const char *key;
    sb_json_object inner;
    sb_knobs_exact(&t->head.knobs);
    if (!knobs)
        return SB_OK;
    sb_status status = sb_json_object_at(knobs, o->file, "knobs", &inner, err);
    if (status)
        return status;
    t->head.has_knobs = 1;
    json_object_foreach(knobs, key, value)
    {
        char assignment[128];
        sb_json_text found;
        const char *text = json_string_value(value);
        int length = snprintf(assignment, sizeof assignment, "%s=%s", key, text ? text : "");
        if (!text || length >= (int)sizeof assignment ||
            sb_knobs_set(&t->head.knobs, assignment, NULL))
            return sb_fail(err, SB_ERR_UNSUPPORTED,
                           "%s: knobs: \"%s\" is %s, expected a knob of `samebit info --profiles` "
                           "and one of its values",
                           SB_SHOW(o->file), SB_SHOW(key), sb_json_found(value, &found));
    }
    return SB_OK;
}

static sb_status read_rollback(const sb_json_object *o, sb_trace *t, sb_error *err)
{
    const char *text = "";
    sb_status status = sb_json_string_or(o, "rollback", "", &text, err);
    if (!status && sb_json_get(o, "rollback") && !sb_trace_rollback_of(text, &t->head.rollback))
        status = sb_json_fail(o, "rollback", SB_ERR_INPUT, err,
                              "is \"%s\", expected replay, snapshots or slots", SB_SHOW(text));
    return status;
}

static sb_status read_drafter(const sb_json_object *o, sb_trace *t, sb_error *err)
{
    const char *text = "";
    sb_status status = sb_json_string_or(o, "drafter", "", &text, err);
    if (!status && sb_json_get(o, "drafter") && !sb_trace_drafter_of(text, &t->head.drafter))
        status = sb_json_fail(
            o, "drafter", SB_ERR_INPUT, err,
            "is \"%s\", expected own, external, sampled, eagle3 or eagle3-sampled", SB_SHOW(text));
    return status;
}

/* U-10: "a power of two from 16 to 512" */
static sb_status read_delta_chunk(const sb_json_object *o, sb_trace *t, sb_error *err)
{
    uint64_t rows = 0;
    sb_status status = sb_json_u64_or(o, "delta_chunk", 0, &rows, err);
    if (!status && sb_json_get(o, "delta_chunk") &&
        (rows < 16 || rows > 512 || (rows & (rows - 1)) != 0))
        status = sb_json_fail(o, "delta_chunk", SB_ERR_INPUT, err,
                              "is %" PRIu64 ", expected a power of two from 16 to 512", rows);
    t->head.delta_chunk = (uint32_t)rows;
    return status;
}

/* The keys that only version 2 has. */
static sb_status read_version_2(const sb_json_object *o, sb_trace *t, sb_error *err)
{
    sb_status status = read_rollback(o, t, err);
    if (!status)
        status = read_drafter(o, t, err);
    if (!status)
        status = read_text(o, "functions", t->head.functions, sizeof t->head.functions, err);
    return status ? status : read_delta_chunk(o, t, err);
}

/* U-11: "a number from 1 to 1048576", which "block" needs and "full" cannot have */
static sb_status read_prefix_block(const sb_json_object *o, sb_trace *t, sb_error *err)
{
    uint64_t block = 0;
    int has = sb_json_get(o, "prefix_block") != NULL;
    sb_status status =
        has ? read_number(o, "prefix_block", SB_TRACE_MAX_BLOCK, &block, err) : SB_OK;
    if (!status && has && !block)
        status = sb_json_fail(o, "prefix_block", SB_ERR_INPUT, err, "is 0, expected at least 1");
    if (!status && !has && t->head.prefix == SB_TRACE_PREFIX_block)
        status =
            sb_json_fail(o, "prefix_block", SB_ERR_INPUT, err,
                         "is absent, but \"prefix\" is \"block\": expected a number of tokens");
    if (!status && has && t->head.prefix != SB_TRACE_PREFIX_block &&
        t->head.prefix != SB_TRACE_PREFIX_checkpoint)
        status = sb_json_fail(o, "prefix_block", SB_ERR_INPUT, err,
                              "is present, but \"prefix\" is neither \"block\" nor \"checkpoint\"");
    t->head.prefix_block = (uint32_t)block;
    return status;
}

/* The keys that only version 3 has. */
static sb_status read_version_3(const sb_json_object *o, sb_trace *t, sb_error *err)
{
    const char *text = "";
    sb_status status = sb_json_string_or(o, "prefix", "", &text, err);
    if (!status && sb_json_get(o, "prefix") && !sb_trace_prefix_of(text, &t->head.prefix))
        status = sb_json_fail(o, "prefix", SB_ERR_INPUT, err,
                              "is \"%s\", expected full, block or checkpoint", SB_SHOW(text));
    return status ? status : read_prefix_block(o, t, err);
}

/* Allows only the keys of the trace's version; those of the newest version come first in the list,
 * and those of version 1 last. */
static sb_status check_keys(const sb_json_object *o, unsigned version, sb_error *err)
{
    static const char *const keys[] = {"prefix",    "prefix_block", "rollback",   "drafter",
                                       "functions", "delta_chunk",  "format",     "version",
                                       "spec",      "engine",       "arithmetic", "profile",
                                       "knobs",     "checkpoint",   "vocab_size", "steps",
                                       "level",     "note",         NULL};
    enum { OF_3 = 2, OF_2 = 4 };
    return sb_json_only(o, keys + (version < 3 ? OF_3 : 0) + (version < 2 ? OF_2 : 0), err);
}

static sb_status read_head(const sb_json_object *o, sb_trace *t, sb_error *err)
{
    uint64_t vocab = 0, level = 0;
    int has_checkpoint;
    sb_status status = read_format(o, t, err);
    if (!status)
        status = check_keys(o, t->head.version, err);
    if (!status)
        status = read_version_2(o, t, err);
    if (!status)
        status = read_version_3(o, t, err);
    if (!status)
        status = read_text(o, "engine", t->head.engine, sizeof t->head.engine, err);
    if (!status && !t->head.engine[0])
        status = sb_json_fail(o, "engine", SB_ERR_INPUT, err,
                              "is absent or empty, expected the name of the engine");
    if (!status)
        status = read_text(o, "arithmetic", t->head.arithmetic, sizeof t->head.arithmetic, err);
    if (!status)
        status = read_text(o, "profile", t->head.profile, sizeof t->head.profile, err);
    if (!status)
        status = read_knobs(o, t, err);
    if (!status)
        status = read_digest(o, "checkpoint", &t->head.checkpoint, &has_checkpoint, err);
    if (!status)
        status = read_number(o, "vocab_size", SB_TRACE_MAX_VOCAB, &vocab, err);
    if (!status && vocab == 0)
        status = sb_json_fail(o, "vocab_size", SB_ERR_INPUT, err, "is 0, expected at least 1");
    if (!status)
        status = read_number(o, "level", SB_TRACE_LEVELS - 1, &level, err);
    t->head.vocab_size = (uint32_t)vocab;
    t->claimed = (unsigned)level;
    return status;
}

/* --- rows, rounds, states --------------------------------------------------------------------- */

/* Enters an item of a list of a step, which has to be an object. */
static sb_status enter(place *p, const char *list, json_t *value, sb_json_object *out,
                       sb_error *err)
{
    snprintf(p->path, sizeof p->path, "steps[%zu].%s[%zu]", p->step, list, p->item);
    return sb_json_object_at(value, p->file, p->path, out, err);
}

static sb_status read_token(const sb_json_object *o, const sb_trace *t, uint32_t *out,
                            sb_error *err)
{
    uint64_t token = 0;
    sb_status status = sb_json_u64(o, "token", &token, err);
    if (!status && token >= t->head.vocab_size)
        status = sb_json_fail(o, "token", SB_ERR_INPUT, err,
                              "is %" PRIu64 ", expected an id below vocab_size %u", token,
                              (unsigned)t->head.vocab_size);
    *out = (uint32_t)token;
    return status;
}

static sb_status read_sequence(const sb_json_object *o, uint32_t *out, sb_error *err)
{
    uint64_t sequence = 0;
    sb_status status = read_number(o, "sequence", SB_TRACE_MAX_SEQUENCES - 1, &sequence, err);
    *out = (uint32_t)sequence;
    return status;
}

static sb_status read_kind(const sb_json_object *o, sb_call_kind *out, sb_error *err)
{
    static const sb_call_kind kinds[] = {SB_CALL_prompt, SB_CALL_decode, SB_CALL_verify,
                                         SB_CALL_draft};
    const char *text = "";
    sb_status status = sb_json_string(o, "kind", &text, err);
    for (size_t i = 0; i < 4 && !status; i++)
        if (strcmp(text, sb_call_kind_name(kinds[i])) == 0) {
            *out = kinds[i];
            return SB_OK;
        }
    return status
               ? status
               : sb_json_fail(o, "kind", SB_ERR_INPUT, err,
                              "is \"%s\", expected prompt, decode, verify or draft", SB_SHOW(text));
}

static sb_status read_row(place *p, const sb_trace *t, json_t *value, sb_step *step, sb_error *err)
{
    static const char *const keys[] = {"sequence", "slot",  "position", "token",
                                       "kind",     "round", NULL};
    sb_json_object o;
    uint64_t slot = SB_NO_SLOT;
    sb_step_row *row = sb_step_add_row(step);
    sb_status status = row ? enter(p, "rows", value, &o, err) : no_memory(p->file, err);
    if (!status)
        status = sb_json_only(&o, keys, err);
    if (!status)
        status = read_sequence(&o, &row->sequence, err);
    if (!status && sb_json_get(&o, "slot"))
        status = read_number(&o, "slot", SB_TRACE_MAX_SLOTS - 1, &slot, err);
    if (!status)
        status = read_number(&o, "position", SB_POSITION_LIMIT - 1, &row->position, err);
    if (!status)
        status = read_token(&o, t, &row->token, err);
    if (!status)
        status = read_kind(&o, &row->kind, err);
    if (!status)
        status = sb_json_u64_or(&o, "round", 0, &row->round, err);
    if (!status)
        row->slot = (uint32_t)slot;
    return status;
}

static sb_status read_ids(const sb_json_object *o, const char *key, size_t least, size_t most,
                          uint32_t vocabulary, uint32_t *out, size_t *count, sb_error *err)
{
    uint64_t ids[SB_MAX_DRAFTS + 1];
    sb_status status = sb_json_u64_array(o, key, least, most, ids, count, err);
    for (size_t i = 0; !status && i < *count; i++) {
        out[i] = (uint32_t)ids[i];
        if (ids[i] >= vocabulary)
            status = sb_json_fail(o, key, SB_ERR_INPUT, err,
                                  "has id %" PRIu64 " at %zu, expected one below vocab_size %u",
                                  ids[i], i, (unsigned)vocabulary);
    }
    return status;
}

static sb_status read_round(place *p, const sb_trace *t, json_t *value, sb_step *step,
                            sb_error *err)
{
    static const char *const keys[] = {"forced", "sequence", "round",   "position",
                                       "drafts", "accepted", "emitted", NULL};
    sb_json_object o;
    uint64_t accepted = 0;
    sb_step_round *r = sb_step_add_round(step);
    sb_status status = r ? enter(p, "rounds", value, &o, err) : no_memory(p->file, err);
    if (!status)
        status = sb_json_only(&o, t->head.version < 2 ? keys + 1 : keys, err);
    if (!status)
        status = sb_json_bool_or(&o, "forced", 0, &r->round.forced, err);
    if (!status)
        status = read_sequence(&o, &r->sequence, err);
    if (!status)
        status = sb_json_u64(&o, "round", &r->number, err);
    if (!status)
        status = read_number(&o, "position", SB_POSITION_LIMIT - 1, &r->position, err);
    if (!status)
        status = read_ids(&o, "drafts", 0, SB_MAX_DRAFTS, t->head.vocab_size, r->round.drafts,
                          &r->round.drafted, err);
    if (!status)
        status = sb_json_u64(&o, "accepted", &accepted, err);
    if (!status && accepted > r->round.drafted)
        status = sb_json_fail(&o, "accepted", SB_ERR_INPUT, err,
                              "is %" PRIu64 ", expected at most the %zu drafts", accepted,
                              r->round.drafted);
    if (!status)
        status = read_ids(&o, "emitted", 1, (size_t)accepted + 1, t->head.vocab_size,
                          r->round.tokens, &r->round.emitted, err);
    if (!status) {
        r->round.accepted = (size_t)accepted;
        r->round.position = r->position;
    }
    return status;
}

static sb_status read_state(place *p, json_t *value, sb_step *step, sb_error *err)
{
    static const char *const keys[] = {"sequence", "position", "target", "mtp", NULL};
    sb_json_object o;
    sb_step_state *s = sb_step_add_state(step);
    sb_status status = s ? enter(p, "states", value, &o, err) : no_memory(p->file, err);
    if (!status)
        status = sb_json_only(&o, keys, err);
    if (!status)
        status = read_sequence(&o, &s->sequence, err);
    if (!status)
        status = read_number(&o, "position", SB_POSITION_LIMIT, &s->position, err);
    if (!status)
        status = read_digest(&o, "target", &s->target, &s->has_target, err);
    return status ? status : read_digest(&o, "mtp", &s->mtp, &s->has_mtp, err);
}

/* The tokens before a sequence that continues another one: all, or none. */
static sb_status read_prefix_tokens(const sb_json_object *o, const sb_trace *t,
                                    sb_step_prefix *prefix, sb_error *err)
{
    size_t n = (size_t)prefix->position, count = 0;
    json_t *list = sb_json_get(o, "tokens");
    if (!list)
        return SB_OK;
    if (json_array_size(list) != n)
        return sb_json_fail(o, "tokens", SB_ERR_INPUT, err,
                            "has %zu ids, expected the %zu tokens before position %zu",
                            json_array_size(list), n, n);
    uint64_t *ids = sb_alloc(n, sizeof *ids);
    prefix->tokens = sb_alloc(n, sizeof *prefix->tokens);
    sb_status status = ids && prefix->tokens
                           ? sb_json_u64_array(o, "tokens", n, n, ids, &count, err)
                           : no_memory(o->file, err);
    for (size_t i = 0; i < count && !status; i++) {
        prefix->tokens[i] = (uint32_t)ids[i];
        if (ids[i] >= t->head.vocab_size)
            status = sb_json_fail(o, "tokens", SB_ERR_INPUT, err,
                                  "has id %" PRIu64 " at %zu, expected one below vocab_size %u",
                                  ids[i], i, (unsigned)t->head.vocab_size);
    }
    free(ids);
    return status;
}

static sb_status read_prefix(place *p, const sb_trace *t, json_t *value, sb_step *step,
                             sb_error *err)
{
    static const char *const keys[] = {"sequence", "parent", "position", "tokens", NULL};
    sb_json_object o;
    uint64_t parent = 0;
    sb_step_prefix *prefix = sb_step_add_prefix(step);
    sb_status status = prefix ? enter(p, "prefixes", value, &o, err) : no_memory(p->file, err);
    if (!status)
        status = sb_json_only(&o, keys, err);
    if (!status)
        status = read_sequence(&o, &prefix->sequence, err);
    if (!status)
        status = read_number(&o, "parent", SB_TRACE_MAX_SEQUENCES - 1, &parent, err);
    if (!status)
        status = read_number(&o, "position", SB_POSITION_LIMIT - 1, &prefix->position, err);
    if (!status && !prefix->position)
        status = sb_json_fail(&o, "position", SB_ERR_INPUT, err,
                              "is 0, expected at least 1: a sequence that begins with an empty "
                              "state continues no other one");
    if (status)
        return status;
    prefix->parent = (uint32_t)parent;
    return read_prefix_tokens(&o, t, prefix, err);
}

/* U-12 */
static sb_status read_sampling(place *p, json_t *value, sb_step *step, sb_error *err)
{
    sb_json_object o;
    sb_step_sampling *s = sb_step_add_sampling(step);
    sb_status status = s ? enter(p, "sampling", value, &o, err) : no_memory(p->file, err);
    if (!status)
        status = read_sequence(&o, &s->sequence, err);
    return status ? status : sb_sampling_read(&o, s, err);
}

/* --- steps ------------------------------------------------------------------------------------ */

/* A list of a step; empty if absent. */
static sb_status list_of(const sb_json_object *o, const char *key, json_t **out, sb_error *err)
{
    json_t *list = sb_json_get(o, key);
    sb_json_text found;
    *out = list;
    if (!list || json_is_array(list))
        return SB_OK;
    return sb_json_fail(o, key, SB_ERR_INPUT, err, "is %s, expected a list",
                        sb_json_found(list, &found));
}

static sb_status read_logits_rows(const sb_json_object *o, sb_step *step, sb_error *err)
{
    json_t *list = sb_json_get(o, "logits_rows");
    if (!list)
        return SB_OK;
    uint64_t *rows = sb_alloc(step->row_count, sizeof *rows);
    step->logits_rows = sb_alloc(step->row_count, sizeof *step->logits_rows);
    sb_status status = rows && step->logits_rows
                           ? sb_json_u64_array(o, "logits_rows", 0, step->row_count, rows,
                                               &step->logits_count, err)
                           : no_memory(o->file, err);
    for (size_t i = 0; i < step->logits_count && !status; i++) {
        step->logits_rows[i] = (size_t)rows[i];
        if (rows[i] >= step->row_count || (i && rows[i] <= rows[i - 1]))
            status =
                sb_json_fail(o, "logits_rows", SB_ERR_INPUT, err,
                             "has %" PRIu64 " at %zu, expected ascending row numbers below %zu",
                             rows[i], i, step->row_count);
    }
    free(rows);
    return status;
}

static sb_status read_lists(place *p, const sb_json_object *o, const sb_trace *t, sb_step *step,
                            sb_error *err)
{
    json_t *rows, *rounds, *states, *prefixes, *samplings;
    sb_status status = list_of(o, "rows", &rows, err);
    if (!status)
        status = list_of(o, "rounds", &rounds, err);
    if (!status)
        status = list_of(o, "states", &states, err);
    if (!status)
        status = list_of(o, "prefixes", &prefixes, err);
    if (!status)
        status = list_of(o, "sampling", &samplings, err);
    if (status)
        return status;
    for (p->item = 0; p->item < json_array_size(rows) && !status; p->item++)
        status = read_row(p, t, json_array_get(rows, p->item), step, err);
    for (p->item = 0; p->item < json_array_size(rounds) && !status; p->item++)
        status = read_round(p, t, json_array_get(rounds, p->item), step, err);
    for (p->item = 0; p->item < json_array_size(states) && !status; p->item++)
        status = read_state(p, json_array_get(states, p->item), step, err);
    for (p->item = 0; p->item < json_array_size(prefixes) && !status; p->item++)
        status = read_prefix(p, t, json_array_get(prefixes, p->item), step, err);
    for (p->item = 0; p->item < json_array_size(samplings) && !status; p->item++)
        status = read_sampling(p, json_array_get(samplings, p->item), step, err);
    return status ? status : read_logits_rows(o, step, err);
}

static sb_status read_step(place *p, sb_trace *t, json_t *value, sb_error *err)
{
    static const char *const keys[] = {"prefixes",    "sampling", "step",   "tensors", "rows",
                                       "logits_rows", "rounds",   "states", "note",    NULL};
    enum { OF_3 = 2 };
    sb_json_object o;
    char path[40];
    uint64_t number = 0;
    sb_step *step = &t->steps[p->step];
    snprintf(path, sizeof path, "steps[%zu]", p->step);
    sb_status status = sb_json_object_at(value, p->file, path, &o, err);
    if (!status)
        status = sb_json_only(&o, t->head.version < 3 ? keys + OF_3 : keys, err);
    if (!status)
        status = sb_json_u64(&o, "step", &number, err);
    if (!status && number != p->step)
        status = sb_json_fail(&o, "step", SB_ERR_INPUT, err,
                              "is %" PRIu64 ", expected %zu: steps are numbered in order from 0",
                              number, p->step);
    if (!status)
        status = sb_json_u64_or(&o, "tensors", 0, &t->tensors[p->step], err);
    step->number = number;
    if (!status)
        status = read_lists(p, &o, t, step, err);
    t->rows += step->row_count;
    return status;
}

static sb_status read_steps(const sb_json_object *o, const char *file, sb_trace *t, sb_error *err)
{
    json_t *list = NULL;
    sb_status status = list_of(o, "steps", &list, err);
    size_t count = json_array_size(list);
    if (!status && (count == 0 || count > SB_TRACE_MAX_STEPS))
        status = sb_json_fail(o, "steps", SB_ERR_INPUT, err, "has %zu steps, expected 1 to %d",
                              count, SB_TRACE_MAX_STEPS);
    if (status)
        return status;
    t->steps = sb_alloc(count, sizeof *t->steps);
    t->tensors = sb_alloc(count, sizeof *t->tensors);
    if (!t->steps || !t->tensors)
        return no_memory(file, err);
    t->count = count;
    place p = {.file = file};
    for (p.step = 0; p.step < count && !status; p.step++)
        status = read_step(&p, t, json_array_get(list, p.step), err);
    return status;
}

sb_status sb_trace_read_list(const char *text, size_t size, const char *file, sb_trace *out,
                             sb_error *err)
{
    json_t *root = NULL;
    sb_json_object o;
    sb_status status = sb_json_parse_rich(text, size, file, &root, err);
    if (!status)
        status = sb_json_object_at(root, file, "", &o, err);
    if (!status)
        status = read_head(&o, out, err);
    if (!status)
        status = read_steps(&o, file, out, err);
    json_decref(root);
    return status;
}

#include "tools/judge/trace/write.h"

#include <errno.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/spec.h"
#include "ref/container/file.h"
#include "ref/container/json.h"
#include "ref/container/json_out.h"
#include "ref/container/show.h"
#include "ref/container/writer.h"
#include "ref/ops/knob.h"
#include "tools/judge/trace/level.h"
#include "tools/judge/trace/names.h"
#include "tools/judge/trace/sampling_json.h"
#include "tools/judge/trace/trace_file.h"

struct sb_trace_writer {
    char *dir;
    sb_file_out list; /* trace.json */
    uint64_t steps;
    sb_level level;
};

/* --- the arrays of a step --------------------------------------------------------------------- */

/* The tensors of a step file. */
typedef struct arrays {
    const sb_step *step;
    const char **names; /* (count) full names */
    const sb_step_value **values;
    char *texts; /* storage of the names of states */
    size_t count;
} arrays;

enum { NAME_ROOM = 128 };

static size_t most_arrays(const sb_step *step)
{
    size_t most = step->taps.count;
    for (size_t i = 0; i < step->state_count; i++)
        most += step->states[i].pieces.count;
    return most;
}

static sb_status list_arrays(const sb_step *step, arrays *out, sb_error *err)
{
    size_t most = most_arrays(step);
    *out = (arrays){.step = step,
                    .names = sb_alloc(most, sizeof *out->names),
                    .values = sb_alloc(most, sizeof *out->values),
                    .texts = sb_alloc(most, NAME_ROOM)};
    if (!out->names || !out->values || !out->texts)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a step of a trace");
    for (size_t i = 0; i < step->taps.count; i++) {
        out->names[out->count] = step->taps.items[i].name;
        out->values[out->count++] = &step->taps.items[i];
    }
    for (size_t s = 0; s < step->state_count; s++)
        for (size_t i = 0; i < step->states[s].pieces.count; i++) {
            const sb_step_value *v = &step->states[s].pieces.items[i];
            char *text = out->texts + out->count * NAME_ROOM;
            snprintf(text, NAME_ROOM, "state.%u.%s", (unsigned)step->states[s].sequence, v->name);
            out->names[out->count] = text;
            out->values[out->count++] = v;
        }
    return SB_OK;
}

static void free_arrays(arrays *a)
{
    free(a->names);
    free((void *)a->values);
    free(a->texts);
}

/* U-8: "an object of [rows, columns, digest]" */
static char *digests_text(const arrays *a)
{
    json_t *all = json_object();
    for (size_t i = 0; i < a->count; i++)
        if (a->values[i]->has_digest)
            json_object_set_new(all, a->names[i],
                                json_pack("[I,I,s]", (json_int_t)a->values[i]->rows,
                                          (json_int_t)a->values[i]->cols,
                                          a->values[i]->digest.hex));
    char *text = sb_json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return text;
}

/* --- a step file ------------------------------------------------------------------------------ */

static uint32_t element(const arrays *a, const sb_tensor *tensor, uint64_t i)
{
    if (strcmp(tensor->name, SB_TRACE_STEP) == 0)
        return (uint32_t)a->step->number;
    if (strcmp(tensor->name, SB_TRACE_TOKENS) == 0)
        return a->step->rows[i].token;
    return 0;
}

static sb_status fill(void *ctx, const sb_tensor *tensor, uint64_t first, unsigned char *bytes,
                      size_t count, sb_error *err)
{
    const arrays *a = ctx;
    const float *data = NULL;
    (void)err;
    for (size_t i = 0; i < a->count && !data; i++)
        if (a->values[i]->data && strcmp(a->names[i], tensor->name) == 0)
            data = a->values[i]->data;
    for (size_t i = 0; i < count / 4; i++) {
        uint64_t at = first / 4 + i;
        uint32_t bits = !data                           ? element(a, tensor, at)
                        : tensor->dtype == SB_DTYPE_I32 ? (uint32_t)data[at]
                                                        : sb_bits_f32(data[at]);
        sb_store_u32(bytes + 4 * i, bits);
    }
    return SB_OK;
}

static sb_status declare(sb_writer *writer, const arrays *a, size_t *tensors, sb_error *err)
{
    uint64_t one = 1, rows = a->step->row_count;
    sb_status status = sb_writer_add(writer, SB_TRACE_STEP, SB_DTYPE_I32, 1, &one, err);
    *tensors = 1;
    if (!status && rows) {
        status = sb_writer_add(writer, SB_TRACE_TOKENS, SB_DTYPE_I32, 1, &rows, err);
        ++*tensors;
    }
    for (size_t i = 0; i < a->count && !status; i++) {
        const sb_step_value *v = a->values[i];
        uint64_t shape[2] = {v->rows, v->cols};
        if (!v->data || !v->rows || !v->cols)
            continue;
        sb_dtype dtype = sb_tap_is_ids(a->names[i]) ? SB_DTYPE_I32 : SB_DTYPE_F32;
        status = sb_writer_add(writer, a->names[i], dtype, 2, shape, err);
        ++*tensors;
    }
    return status;
}

static sb_status write_file(const sb_trace_writer *w, const sb_step *step, size_t *tensors,
                            sb_error *err)
{
    arrays a = {.count = 0};
    sb_writer *writer = NULL;
    char *path = NULL, *digests = NULL;
    sb_status status = list_arrays(step, &a, err);
    if (!status) {
        path = sb_path_join(w->dir, sb_trace_file_name(step->number).text);
        digests = digests_text(&a);
        if (!path || !digests)
            status = sb_fail(err, SB_ERR_MEMORY, "out of memory for a step of a trace");
    }
    if (!status)
        status = sb_writer_new(path, 0, SB_WRITER_FILE | SB_WRITER_REPLACE, &writer, err);
    if (!status)
        status = declare(writer, &a, tensors, err);
    if (!status)
        status = sb_writer_metadata(writer, SB_TRACE_STEP, SB_TRACE_DIGESTS, digests, err);
    if (!status)
        status = sb_writer_run(writer, fill, &a, err);
    sb_writer_free(writer);
    free(digests);
    free(path);
    free_arrays(&a);
    return status;
}

/* --- trace.json ------------------------------------------------------------------------------- */

static json_t *ids_json(const uint32_t *ids, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer(ids[i]));
    return list;
}

static json_t *row_json(const sb_step_row *row)
{
    json_t *out = json_pack("{s:I}", "sequence", (json_int_t)row->sequence);
    if (row->slot != SB_NO_SLOT)
        json_object_set_new(out, "slot", json_integer(row->slot));
    json_object_set_new(out, "position", json_integer((json_int_t)row->position));
    json_object_set_new(out, "token", json_integer(row->token));
    json_object_set_new(out, "kind", json_string(sb_call_kind_name(row->kind)));
    if (row->kind != SB_CALL_prompt)
        json_object_set_new(out, "round", json_integer((json_int_t)row->round));
    return out;
}

static json_t *round_json(const sb_step_round *r)
{
    json_t *out = json_pack("{s:I,s:I,s:I,s:o,s:I,s:o}", "sequence", (json_int_t)r->sequence,
                            "round", (json_int_t)r->number, "position", (json_int_t)r->position,
                            "drafts", ids_json(r->round.drafts, r->round.drafted), "accepted",
                            (json_int_t)r->round.accepted, "emitted",
                            ids_json(r->round.tokens, r->round.emitted));
    if (r->round.forced)
        json_object_set_new(out, "forced", json_true());
    return out;
}

static json_t *state_json(const sb_step_state *s)
{
    json_t *out = json_pack("{s:I,s:I}", "sequence", (json_int_t)s->sequence, "position",
                            (json_int_t)s->position);
    if (s->has_target)
        json_object_set_new(out, "target", json_string(s->target.hex));
    if (s->has_mtp)
        json_object_set_new(out, "mtp", json_string(s->mtp.hex));
    return out;
}

static json_t *prefix_json(const sb_step_prefix *p)
{
    json_t *out = json_pack("{s:I,s:I,s:I}", "sequence", (json_int_t)p->sequence, "parent",
                            (json_int_t)p->parent, "position", (json_int_t)p->position);
    if (p->tokens)
        json_object_set_new(out, "tokens", ids_json(p->tokens, (size_t)p->position));
    return out;
}

/* U-11: a step without such sequences has no list */
static void add_prefixes(json_t *out, const sb_step *step)
{
    json_t *list = step->prefix_count ? json_array() : NULL;
    for (size_t i = 0; i < step->prefix_count; i++)
        json_array_append_new(list, prefix_json(&step->prefixes[i]));
    if (list)
        json_object_set_new(out, "prefixes", list);
}

/* U-12: a step without declared samplers has no list */
static void add_samplings(json_t *out, const sb_step *step)
{
    json_t *list = step->sampling_count ? json_array() : NULL;
    for (size_t i = 0; i < step->sampling_count; i++)
        json_array_append_new(list, sb_sampling_json(&step->samplings[i]));
    if (list)
        json_object_set_new(out, "sampling", list);
}

static json_t *step_json(const sb_step *step, size_t tensors)
{
    json_t *rows = json_array(), *rounds = json_array(), *states = json_array();
    for (size_t i = 0; i < step->row_count; i++)
        json_array_append_new(rows, row_json(&step->rows[i]));
    for (size_t i = 0; i < step->round_count; i++)
        json_array_append_new(rounds, round_json(&step->rounds[i]));
    for (size_t i = 0; i < step->state_count; i++)
        json_array_append_new(states, state_json(&step->states[i]));
    json_t *out = json_pack("{s:I,s:I,s:o}", "step", (json_int_t)step->number, "tensors",
                            (json_int_t)tensors, "rows", rows);
    if (step->logits_rows) {
        json_t *list = json_array();
        for (size_t i = 0; i < step->logits_count; i++)
            json_array_append_new(list, json_integer((json_int_t)step->logits_rows[i]));
        json_object_set_new(out, "logits_rows", list);
    }
    json_object_set_new(out, "rounds", rounds);
    json_object_set_new(out, "states", states);
    add_prefixes(out, step);
    add_samplings(out, step);
    return out;
}

/* Appends a JSON value as text, and frees it. */
static sb_status append(sb_trace_writer *w, const char *before, json_t *value, const char *after,
                        sb_error *err)
{
    char *text = sb_json_dumps(value, JSON_ENCODE_ANY);
    json_decref(value);
    sb_status status =
        text ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for a step of a trace");
    if (!status)
        status = sb_file_append(&w->list, before, strlen(before), err);
    if (!status)
        status = sb_file_append(&w->list, text, strlen(text), err);
    if (!status)
        status = sb_file_append(&w->list, after, strlen(after), err);
    free(text);
    return status;
}

/* U-10, U-11: unknown values have no key */
static void add_newer(json_t *out, const sb_trace_head *head)
{
    if (head->rollback)
        json_object_set_new(out, "rollback", json_string(sb_trace_rollback_name(head->rollback)));
    if (head->drafter)
        json_object_set_new(out, "drafter", json_string(sb_trace_drafter_name(head->drafter)));
    if (*head->functions)
        json_object_set_new(out, "functions", json_string(head->functions));
    if (head->delta_chunk)
        json_object_set_new(out, "delta_chunk", json_integer(head->delta_chunk));
    if (head->prefix)
        json_object_set_new(out, "prefix", json_string(sb_trace_prefix_name(head->prefix)));
    if (head->prefix_block)
        json_object_set_new(out, "prefix_block", json_integer(head->prefix_block));
}

static sb_status write_head(sb_trace_writer *w, const sb_trace_head *head, sb_error *err)
{
    json_t *out = json_pack("{s:s,s:i,s:i,s:s,s:s,s:s}", "format", SB_TRACE_FORMAT, "version",
                            (int)SB_TRACE_VERSION, "spec", (int)SB_SPEC_VERSION, "engine",
                            head->engine, "arithmetic", head->arithmetic, "profile", head->profile);
    json_t *knobs = json_object();
    for (unsigned k = 0; k < SB_KNOB_COUNT && head->has_knobs; k++)
        json_object_set_new(knobs, sb_knob_name((sb_knob)k),
                            json_string(sb_knob_value_name(head->knobs.value[k])));
    if (head->has_knobs)
        json_object_set(out, "knobs", knobs);
    json_decref(knobs);
    if (head->checkpoint.hex[0])
        json_object_set_new(out, "checkpoint", json_string(head->checkpoint.hex));
    json_object_set_new(out, "vocab_size", json_integer(head->vocab_size));
    add_newer(out, head);
    /* the object stays open for the steps and the level */
    char *text = sb_json_dumps(out, JSON_ENCODE_ANY);
    json_decref(out);
    if (!text)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a trace");
    sb_status status = sb_file_append(&w->list, text, strlen(text) - 1, err);
    free(text);
    return status ? status : sb_file_append(&w->list, ",\n\"steps\": [", 12, err);
}

/* --- the folder ------------------------------------------------------------------------------- */

static sb_status check_empty(const char *dir, sb_error *err)
{
    if (mkdir(dir, 0777) == 0)
        return SB_OK;
    DIR *d = errno == EEXIST ? opendir(dir) : NULL;
    sb_status status = SB_OK;
    if (!d)
        return sb_fail(err, SB_ERR_IO, "%s: cannot create or list this folder: %s", SB_SHOW(dir),
                       strerror(errno));
    for (struct dirent *e = readdir(d); e && !status; e = readdir(d))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            status =
                sb_fail(err, SB_ERR_USAGE,
                        "%s: the folder is not empty (%s); a trace needs a new or empty folder",
                        SB_SHOW(dir), SB_SHOW(e->d_name));
    closedir(d);
    return status;
}

sb_status sb_trace_begin(const char *dir, const sb_trace_head *head, sb_trace_writer **out,
                         sb_error *err)
{
    sb_status status = check_empty(dir, err);
    if (status)
        return status;
    sb_trace_writer *w = sb_alloc(1, sizeof *w);
    char *path = sb_path_join(dir, SB_TRACE_LIST);
    if (w)
        w->dir = sb_strdup(dir);
    if (!w || !w->dir || !path)
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for a trace");
    if (!status)
        status = sb_file_begin(path, &w->list, err);
    if (!status)
        status = write_head(w, head, err);
    free(path);
    if (status)
        sb_trace_writer_free(w);
    else
        *out = w;
    return status;
}

sb_status sb_trace_write(void *writer, const sb_step *step, sb_error *err)
{
    sb_trace_writer *w = writer;
    size_t tensors = 0;
    if (step->number != w->steps || w->steps >= SB_TRACE_MAX_STEPS)
        return sb_fail(err, SB_ERR_USAGE,
                       "%s: step %" PRIu64 " was given for step %" PRIu64
                       " of a trace of at most %d",
                       SB_SHOW(w->dir), step->number, w->steps, SB_TRACE_MAX_STEPS);
    sb_status status = write_file(w, step, &tensors, err);
    if (!status)
        status = append(w, w->steps ? ",\n" : "\n", step_json(step, tensors), "", err);
    sb_level_add(&w->level, step);
    w->steps++;
    return status;
}

sb_status sb_trace_commit(sb_trace_writer *w, sb_error *err)
{
    char end[64];
    snprintf(end, sizeof end, "\n],\n\"level\": %u}\n", sb_level_reached(&w->level));
    sb_status status = sb_file_append(&w->list, end, strlen(end), err);
    if (!status)
        status = sb_file_sync(&w->list, err);
    return status ? status : sb_file_commit(&w->list, err);
}

void sb_trace_writer_free(sb_trace_writer *w)
{
    if (!w)
        return;
    sb_file_abort(&w->list);
    free(w->dir);
    free(w);
}

/* judge_json.c - a case of `samebit judge` as an object of its document. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "ref/ops/knob.h"
#include "tools/cli/judge_show.h"
#include "tools/judge/gate/case.h"
#include "tools/report/part/document.h"

/* Adds a member; a value that could not be made marks the document as failed. */
static void put(json_t *object, const char *key, json_t *value, int *failed)
{
    *failed |= !value || json_object_set_new(object, key, value) != 0;
}

static void append(json_t *array, json_t *value, int *failed)
{
    *failed |= !value || json_array_append_new(array, value) != 0;
}

/* A string from a file name or message, which may be no UTF-8. */
static json_t *shown(const char *text)
{
    sb_shown room = {{0}};
    sb_show(text, &room);
    sb_clean_text(room.text);
    return json_string(room.text);
}

static json_t *number(uint64_t n)
{
    return json_integer((json_int_t)n);
}

/* A number, or null: JSON has no infinity and no NaN. */
static json_t *real(double x)
{
    return x - x == 0.0 ? json_real(x) : json_null();
}

static json_t *numbers(const uint64_t *values, size_t count, int *failed)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++)
        append(list, number(values[i]), failed);
    return list;
}

/* An array of the names in a list separated by ", ". */
static json_t *names(const char *text, int *failed)
{
    json_t *list = json_array();
    while (list && *text) {
        size_t n = strcspn(text, ",");
        append(list, json_stringn(text, n), failed);
        text += n + strspn(text + n, ", ");
    }
    return list;
}

/* Half a digest of each of the first rows, for comparison with a later run. */
enum { ROWS = 256, ROW_DIGITS = 16 };

static void put_digests(json_t *object, const sb_gate_output *o, const sb_gate_got *g, int *failed)
{
    sb_digest digest;
    uint64_t rows = o->rank ? o->shape[0] : 1;
    json_t *list = json_array();
    *failed |= sb_gate_got_digest(o, g, 0, 1, &digest, NULL) != SB_OK;
    put(object, "digest", json_string(digest.hex), failed);
    for (uint64_t i = 0; list && i < rows && rows <= ROWS; i++) {
        *failed |= sb_gate_got_digest(o, g, i, rows, &digest, NULL) != SB_OK;
        append(list, json_stringn(digest.hex, ROW_DIGITS), failed);
    }
    put(object, "rows", list, failed);
}

static json_t *output_json(const sb_gate_judged *j, size_t i, int *failed)
{
    const sb_gate_output *o = &j->c->output[i];
    const sb_gate_got *g = &j->gots.got[i];
    const sb_gate_tally *t = &j->result.of[i];
    json_t *d = json_object();
    char name[64];
    if (!d)
        return NULL;
    snprintf(name, sizeof name, "out%s%s", *o->name ? "." : "", o->name);
    put(d, "name", json_string(name), failed);
    put(d, "given", json_boolean(t->given), failed);
    put(d, "axes", json_string(o->axes ? o->axes : ""), failed);
    put(d, "shape", numbers(o->shape, o->rank, failed), failed);
    if (!t->given)
        return d;
    put(d, "dtype", json_string(sb_dtype_name(g->dtype)), failed);
    put(d, "elements", number(t->count), failed);
    put(d, "identical", number(t->identical), failed);
    put(d, "outside", number(t->outside), failed);
    put(d, "near_ties", number(t->near_ties), failed);
    put(d, "unbounded", number(t->unbounded), failed);
    put(d, "worst", real(t->worst), failed);
    put(d, "nan", number(t->nan), failed);
    put(d, "infinite", number(t->infinite), failed);
    put(d, "zero", number(t->zero), failed);
    put(d, "sign", number(t->sign), failed);
    put_digests(d, o, g, failed);
    return d;
}

/* The first element outside, or the one nearest to its bound. */
static json_t *element_json(const sb_gate_judged *j, int *failed)
{
    const sb_gate_result *r = &j->result;
    const sb_gate_output *o = &j->c->output[r->output];
    json_t *d = json_object();
    char place[160];
    uint64_t index[SB_GATE_RANK];
    if (!d)
        return NULL;
    sb_gate_place(o, r->has_first ? r->first : r->nearest, index, place, sizeof place);
    put(d, "output", json_sprintf("out%s%s", *o->name ? "." : "", o->name), failed);
    put(d, "outside", json_boolean(r->has_first), failed);
    put(d, "index", numbers(index, o->rank, failed), failed);
    put(d, "place", json_string(place), failed);
    put(d, "found", real(r->found), failed);
    put(d, "expected", real(r->expected), failed);
    put(d, "bound", real(r->bound), failed);
    return d;
}

static json_t *arith_json(const sb_gate_judged *j, int *failed)
{
    sb_gate_point point[SB_KNOB_COUNT];
    size_t count = sb_gate_points(&j->ar, point);
    json_t *d = json_object(), *list = json_array();
    put(d, "name", json_string(j->ar.name), failed);
    put(d, "inferred", json_boolean(j->rows != 0), failed);
    for (size_t i = 0; i < count; i++)
        append(list,
               json_pack("{s:s,s:s,s:s}", "knob", point[i].knob, "value", point[i].value, "help",
                         point[i].help),
               failed);
    put(d, "points", list, failed);
    return d;
}

static json_t *power_json(const sb_gate_power *p, int *failed)
{
    json_t *d = json_object();
    put(d, "planted", number(p->planted), failed);
    put(d, "caught", number(p->caught), failed);
    put(d, "shown", names(p->shown, failed), failed);
    put(d, "missed", names(p->missed, failed), failed);
    return d;
}

/* The digest of the case's inputs; a later run must have the same. */
static json_t *inputs_digest(const sb_gate_case *c)
{
    sb_hash *hash = sb_hash_new();
    for (size_t i = 0; hash && i < c->arrays; i++) {
        sb_hash_bytes(hash, c->array[i].name, strlen(c->array[i].name) + 1);
        sb_hash_bytes(hash, c->array[i].data, (size_t)c->array[i].bytes);
    }
    sb_digest digest = hash ? sb_hash_end(hash) : (sb_digest){""};
    sb_hash_free(hash);
    return hash ? json_string(digest.hex) : NULL;
}

static void put_case(json_t *d, const sb_gate_judged *j, int *failed)
{
    const sb_gate_case *c = j->c;
    json_t *outputs = json_array();
    put(d, "op", json_string(c->op->name), failed);
    put(d, "format", json_string(c->format), failed);
    put(d, "input", json_string(sb_dtype_name(c->input)), failed);
    put(d, "shape", json_string(sb_gate_shape_of(c).text), failed);
    put(d, "regime", json_string(sb_gate_regime_name(c->regime)), failed);
    put(d, "seed", json_sprintf("%" PRIu64, c->seed), failed); /* may exceed JSON integers */
    put(d, "inputs", inputs_digest(c), failed);
    put(d, "verdict", json_string(sb_verdict_name((sb_verdict)j->result.verdict)), failed);
    put(d, "words", json_string(j->result.words), failed);
    put(d, "elements", number(j->result.count), failed);
    put(d, "outside", number(j->result.outside), failed);
    put(d, "near_ties", number(j->result.near_ties), failed);
    put(d, "unbounded", number(j->result.unbounded), failed);
    put(d, "worst", real(j->result.worst), failed);
    put(d, "element", element_json(j, failed), failed);
    for (size_t i = 0; i < c->outputs; i++)
        append(outputs, output_json(j, i, failed), failed);
    put(d, "outputs", outputs, failed);
    put(d, "arithmetic", arith_json(j, failed), failed);
    put(d, "power", power_json(&j->power, failed), failed);
    put(d, "note", *j->result.note ? json_string(j->result.note) : json_null(), failed);
    put(d, "same_as_input", j->gots.same_as ? json_string(j->gots.same_as) : json_null(), failed);
}

json_t *sb_judge_case_json(const sb_gate_judged *j)
{
    int failed = 0;
    json_t *d = json_object();
    if (!d)
        return NULL;
    put(d, "name", shown(j->name), &failed);
    if (j->c)
        put_case(d, j, &failed);
    else {
        put(d, "verdict", json_string(sb_verdict_name(SB_VERDICT_SKIPPED)), &failed);
        put(d, "words", shown(j->why.text), &failed);
    }
    if (!failed)
        return d;
    json_decref(d);
    return NULL;
}

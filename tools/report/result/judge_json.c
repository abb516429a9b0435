/* judge_json.c - a case of `samebit judge` as an object of its document. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/container/json_out.h"
#include "ref/container/show.h"
#include "ref/ops/knob.h"
#include "tools/report/result/judge.h"
#include "tools/judge/gate/case.h"
#include "tools/report/part/document.h"

/* A string from a file name or message, which may be no UTF-8. */
static json_t *shown(const char *text)
{
    sb_shown room = {{0}};
    sb_show(text, &room);
    sb_clean_text(room.text);
    return json_string(room.text);
}

/* An array of the names in a list separated by ", ". */
static json_t *names(const char *text)
{
    json_t *list = json_array();
    while (*text) {
        size_t n = strcspn(text, ",");
        SB_ADD(list, json_stringn(text, n));
        text += n + strspn(text + n, ", ");
    }
    return list;
}

/* Half a digest of each of the first rows, for comparison with a later run. */
enum { ROWS = 256, ROW_DIGITS = 16 };

static void put_digests(json_t *object, const sb_gate_output *o, const sb_gate_got *g)
{
    sb_digest digest;
    uint64_t rows = o->rank ? o->shape[0] : 1;
    json_t *list = json_array();
    if (sb_gate_got_digest(o, g, 0, 1, &digest, NULL))
        sb_json_lose();
    SB_PUT(object, "digest", digest.hex);
    for (uint64_t i = 0; i < rows && rows <= ROWS; i++) {
        if (sb_gate_got_digest(o, g, i, rows, &digest, NULL))
            sb_json_lose();
        SB_ADD(list, json_stringn(digest.hex, ROW_DIGITS));
    }
    SB_PUT(object, "rows", list);
}

static json_t *output_json(const sb_gate_judged *j, size_t i)
{
    const sb_gate_output *o = &j->c->output[i];
    const sb_gate_got *g = &j->gots.got[i];
    const sb_gate_tally *t = &j->result.of[i];
    json_t *d = json_object();
    char name[64];
    snprintf(name, sizeof name, "out%s%s", *o->name ? "." : "", o->name);
    SB_PUT(d, "name", name);
    SB_PUT(d, "given", json_boolean(t->given));
    SB_PUT(d, "axes", o->axes ? o->axes : "");
    SB_PUT(d, "shape", sb_counts_json(o->shape, o->rank));
    if (!t->given)
        return d;
    SB_PUT(d, "dtype", sb_dtype_name(g->dtype));
    SB_PUT(d, "elements", t->count);
    SB_PUT(d, "identical", t->identical);
    SB_PUT(d, "outside", t->outside);
    SB_PUT(d, "near_ties", t->near_ties);
    SB_PUT(d, "unbounded", t->unbounded);
    SB_PUT(d, "worst", t->worst);
    SB_PUT(d, "nan", t->nan);
    SB_PUT(d, "infinite", t->infinite);
    SB_PUT(d, "zero", t->zero);
    SB_PUT(d, "sign", t->sign);
    put_digests(d, o, g);
    return d;
}

/* The first element outside, or the one nearest to its bound. */
static json_t *element_json(const sb_gate_judged *j)
{
    const sb_gate_result *r = &j->result;
    const sb_gate_output *o = &j->c->output[r->output];
    json_t *d = json_object();
    char place[160];
    uint64_t index[SB_GATE_RANK];
    sb_gate_place(o, r->has_first ? r->first : r->nearest, index, place, sizeof place);
    SB_PUT(d, "output", json_sprintf("out%s%s", *o->name ? "." : "", o->name));
    SB_PUT(d, "outside", json_boolean(r->has_first));
    SB_PUT(d, "index", sb_counts_json(index, o->rank));
    SB_PUT(d, "place", place);
    SB_PUT(d, "found", r->found);
    SB_PUT(d, "expected", r->expected);
    SB_PUT(d, "bound", r->bound);
    return d;
}

static json_t *arith_json(const sb_gate_judged *j)
{
    sb_gate_point point[SB_KNOB_COUNT];
    size_t count = sb_gate_points(&j->ar, point);
    json_t *d = json_object(), *list = json_array();
    SB_PUT(d, "name", j->ar.name);
    SB_PUT(d, "inferred", json_boolean(j->rows != 0));
    for (size_t i = 0; i < count; i++) {
        json_t *row = json_object();
        SB_PUT(row, "knob", point[i].knob);
        SB_PUT(row, "value", point[i].value);
        SB_PUT(row, "help", point[i].help);
        SB_ADD(list, row);
    }
    SB_PUT(d, "points", list);
    return d;
}

static json_t *power_json(const sb_gate_power *p)
{
    json_t *d = json_object();
    SB_PUT(d, "planted", p->planted);
    SB_PUT(d, "caught", p->caught);
    SB_PUT(d, "shown", names(p->shown));
    SB_PUT(d, "missed", names(p->missed));
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

static void put_case(json_t *d, const sb_gate_judged *j)
{
    const sb_gate_case *c = j->c;
    json_t *outputs = json_array();
    SB_PUT(d, "op", c->op->name);
    SB_PUT(d, "format", c->format);
    SB_PUT(d, "input", sb_dtype_name(c->input));
    SB_PUT(d, "shape", sb_gate_shape_of(c).text);
    SB_PUT(d, "regime", sb_gate_regime_name(c->regime));
    SB_PUT(d, "seed", json_sprintf("%" PRIu64, c->seed)); /* may exceed JSON integers */
    SB_PUT(d, "inputs", inputs_digest(c));
    SB_PUT(d, "verdict", sb_verdict_name((sb_verdict)j->result.verdict));
    SB_PUT(d, "words", j->result.words);
    SB_PUT(d, "elements", j->result.count);
    SB_PUT(d, "outside", j->result.outside);
    SB_PUT(d, "near_ties", j->result.near_ties);
    SB_PUT(d, "unbounded", j->result.unbounded);
    SB_PUT(d, "worst", j->result.worst);
    SB_PUT(d, "element", element_json(j));
    for (size_t i = 0; i < c->outputs; i++)
        SB_ADD(outputs, output_json(j, i));
    SB_PUT(d, "outputs", outputs);
    SB_PUT(d, "arithmetic", arith_json(j));
    SB_PUT(d, "power", power_json(&j->power));
    SB_PUT(d, "note", SB_KNOWN(*j->result.note, j->result.note));
    SB_PUT(d, "same_as_input", SB_KNOWN(j->gots.same_as, j->gots.same_as));
}

json_t *sb_judge_case_json(const sb_gate_judged *j)
{
    json_t *d = json_object();
    SB_PUT(d, "name", shown(j->name));
    if (j->c) {
        put_case(d, j);
    } else {
        SB_PUT(d, "verdict", sb_verdict_name(SB_VERDICT_SKIPPED));
        SB_PUT(d, "words", shown(j->why.text));
    }
    return d;
}

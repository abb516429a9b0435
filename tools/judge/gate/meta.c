/* meta.c - the metamorphic gate of a kernel that can be called. */
#include "tools/judge/gate/meta.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/judge/gate/element.h"
#include "tools/judge/gate/meta_parts.h"

enum { GUARD = 4096, PLAIN = 0x00, REPEATS = 100 };

/* Bytes between two guard areas of the same size; the caller frees base. */
typedef struct guarded {
    unsigned char *base, *data;
    size_t bytes;
} guarded;

static int guarded_make(guarded *g, size_t bytes, int fill)
{
    size_t room = bytes + 2 * GUARD;
    g->base = sb_alloc(room + SB_LINE, 1);
    g->bytes = bytes;
    if (!g->base)
        return 0;
    unsigned char *first = sb_at_line(g->base);
    memset(first, fill, room);
    g->data = first + GUARD;
    return 1;
}

/* True if the guard areas are unchanged. */
static int guarded_whole(const guarded *g, int fill)
{
    for (size_t i = 0; i < GUARD; i++)
        if (g->data[-1 - (long)i] != (unsigned char)fill ||
            g->data[g->bytes + i] != (unsigned char)fill)
            return 0;
    return 1;
}

/* One call of the kernel: its inputs and outputs, each between guard areas. */
typedef struct call {
    sb_gate_case c; /* its inputs are in `in`; its outputs have no values */
    guarded in[SB_GATE_ARRAYS], out[SB_GATE_OUTPUTS];
    sb_gate_target room[SB_GATE_OUTPUTS];
} call;

static void call_free(call *k)
{
    for (size_t i = 0; i < SB_GATE_ARRAYS; i++)
        free(k->in[i].base);
    for (size_t i = 0; i < SB_GATE_OUTPUTS; i++)
        free(k->out[i].base);
    free(k);
}

static sb_dtype dtype_of(const sb_gate_meta_options *o, const sb_gate_case *c, size_t i)
{
    return o->dtype[i]                            ? o->dtype[i]
           : c->output[i].kind == SB_GATE_CHOICES ? SB_DTYPE_U32
                                                  : SB_DTYPE_F32;
}

static int call_prepare(call *k, const sb_gate_meta_options *o, const sb_gate_case *c, int fill)
{
    int ok = 1;
    k->c = *c;
    for (size_t i = 0; i < c->arrays && ok; i++) {
        ok = guarded_make(&k->in[i], (size_t)c->array[i].bytes, fill);
        if (ok)
            memcpy(k->in[i].data, c->array[i].data, k->in[i].bytes);
        k->c.array[i].data = k->in[i].data;
    }
    for (size_t i = 0; i < c->outputs && ok; i++) {
        sb_dtype dtype = dtype_of(o, c, i);
        ok = guarded_make(&k->out[i], c->output[i].count * (sb_dtype_bits(dtype) / 8), fill);
        k->room[i] = (sb_gate_target){dtype, k->out[i].data, k->out[i].bytes};
        k->c.output[i].real = NULL;
        k->c.output[i].exact = NULL;
    }
    return ok;
}

/* Describes a write outside the outputs: to guard areas or inputs. "" if there is none. */
static void trespass(const call *k, const sb_gate_case *c, int fill, char *words, size_t size)
{
    *words = '\0';
    for (size_t i = 0; i < c->outputs; i++)
        if (!guarded_whole(&k->out[i], fill))
            snprintf(words, size, "the kernel writes outside out%s%s",
                     *c->output[i].name ? "." : "", c->output[i].name);
    for (size_t i = 0; i < c->arrays; i++)
        if (!guarded_whole(&k->in[i], fill))
            snprintf(words, size, "the kernel writes outside in.%s", c->array[i].name);
        else if (memcmp(k->in[i].data, c->array[i].data, k->in[i].bytes) != 0)
            snprintf(words, size, "the kernel writes into in.%s", c->array[i].name);
}

/* --- the gate --------------------------------------------------------------------------------- */

typedef struct gate {
    const sb_gate_case *c;
    const sb_gate_meta_options *options;
    sb_gate_meta *result;
    call *base; /* the call that all others are compared with */
    sb_error *err;
} gate;

static void fail(sb_gate_meta_row *row, const char *what, const char *words)
{
    if (row->verdict == SB_VERDICT_FAIL)
        return;
    row->verdict = SB_VERDICT_FAIL;
    snprintf(row->words, sizeof row->words, "%s: %s", what, words);
}

/* *out is NULL after a failure. */
static sb_status call_kernel(gate *g, const sb_gate_case *c, int fill, const char *what,
                             sb_gate_meta_row *row, call **out)
{
    char words[200];
    call *k = sb_alloc(1, sizeof *k);
    *out = NULL;
    if (!k)
        return sb_fail(g->err, SB_ERR_MEMORY, "out of memory for a call of the kernel");
    sb_status status = call_prepare(k, g->options, c, fill) ? SB_OK : SB_ERR_MEMORY;
    if (status) {
        call_free(k);
        return sb_fail(g->err, status, "out of memory for the arrays of the kernel");
    }
    status = g->options->kernel(g->options->ctx, &k->c, k->room);
    if (status) {
        call_free(k);
        return sb_fail(g->err, status, "%s: the kernel returned an error", what);
    }
    row->calls++;
    trespass(k, c, fill, words, sizeof words);
    if (*words)
        fail(row, what, words);
    *out = k;
    return SB_OK;
}

static size_t row_bytes(const sb_gate_output *o, const sb_gate_target *room)
{
    return (size_t)(room->bytes / o->shape[0]);
}

/* Compares `count` elements of an output of a call, from `from` on, with the base. */
static void compare(gate *g, const call *k, size_t o, size_t from, size_t base_from, size_t count,
                    const char *what, sb_gate_meta_row *row)
{
    const sb_gate_target *a = &g->base->room[o], *b = &k->room[o];
    size_t width = sb_dtype_bits(a->dtype) / 8;
    row->elements += count;
    if (row->verdict == SB_VERDICT_FAIL ||
        memcmp(a->data + base_from * width, b->data + from * width, count * width) == 0)
        return;
    size_t i = 0;
    while (memcmp(a->data + (base_from + i) * width, b->data + (from + i) * width, width) == 0)
        i++;
    char place[160], words[300];
    uint64_t index[SB_GATE_RANK];
    const sb_gate_output *out = &g->c->output[o];
    sb_gate_place(out, base_from + i, index, place, sizeof place);
    snprintf(words, sizeof words, "out%s%s: %s is %s, but in the first call %s (%#llx, %#llx)",
             *out->name ? "." : "", out->name, place,
             sb_element_print(sb_element_value(b->dtype, b->data, from + i, 0)).text,
             sb_element_print(sb_element_value(a->dtype, a->data, base_from + i, 0)).text,
             (unsigned long long)sb_element_bits(b->dtype, b->data, from + i),
             (unsigned long long)sb_element_bits(a->dtype, a->data, base_from + i));
    fail(row, what, words);
}

static void compare_all(gate *g, const call *k, const char *what, sb_gate_meta_row *row)
{
    for (size_t o = 0; o < g->c->outputs; o++)
        compare(g, k, o, 0, 0, g->c->output[o].count, what, row);
}

/* Compares row `at` of each output that has rows with row `of` of the base. */
static void compare_row(gate *g, const call *k, size_t at, size_t of, const char *what,
                        sb_gate_meta_row *row)
{
    size_t rows = sb_meta_rows(g->c);
    for (size_t o = 0; o < g->c->outputs; o++) {
        const sb_gate_output *out = &g->c->output[o];
        if (!out->rank || out->shape[0] != rows)
            continue;
        size_t n = row_bytes(out, &g->base->room[o]) / (sb_dtype_bits(k->room[o].dtype) / 8);
        compare(g, k, o, at * n, of * n, n, what, row);
    }
}

/* --- kinds ------------------------------------------------------------------------------------ */

static sb_status again(gate *g, sb_gate_meta_kind kind, int fill, const char *what)
{
    sb_gate_meta_row *row = &g->result->row[kind];
    call *k;
    sb_status status = call_kernel(g, g->c, fill, what, row, &k);
    if (status)
        return status;
    compare_all(g, k, what, row);
    call_free(k);
    return SB_OK;
}

static sb_status repeat(gate *g)
{
    unsigned repeats = g->options->repeats ? g->options->repeats : REPEATS;
    sb_status status = SB_OK;
    for (unsigned i = 1; i <= repeats && !status; i++) {
        char what[32];
        snprintf(what, sizeof what, "call %u", i + 1);
        status = again(g, SB_GATE_META_repeated, PLAIN, what);
    }
    return status;
}

/* Bytes 0xFF are NaN in every float type, and -1 in integers. Bytes 0x7F are NaN in FP8, and a
 * large number in other types. */
static sb_status surround(gate *g)
{
    sb_status status = again(g, SB_GATE_META_surroundings, 0x7f, "among bytes 0x7F");
    return status ? status : again(g, SB_GATE_META_surroundings, 0xff, "among bytes 0xFF");
}

static sb_status try_variant(gate *g, const sb_meta_variant *v, sb_gate_meta_row *row)
{
    sb_gate_case *c;
    sb_error why = {{0}};
    call *k;
    sb_status status = sb_meta_derive(g->c, v, &c, &why);
    if (status == SB_ERR_MEMORY)
        return sb_fail(g->err, status, "out of memory for the rows of %s", v->name);
    if (status) {
        if (!*row->words)
            snprintf(row->words, sizeof row->words, "without %s: %.300s", v->name, why.text);
        return SB_OK;
    }
    status = call_kernel(g, c, 0xff, v->name, row, &k);
    for (size_t r = 0; r < v->count && !status; r++)
        compare_row(g, k, r, v->rows[r], v->name, row);
    if (!status)
        call_free(k);
    sb_gate_case_free(c);
    return status;
}

static sb_status rearrange(gate *g, sb_gate_meta_kind kind)
{
    sb_gate_meta_row *row = &g->result->row[kind];
    size_t rows = sb_meta_rows(g->c), count = sb_meta_variants(kind, rows);
    sb_status status = SB_OK;
    if (sb_meta_why_not(g->c)) {
        snprintf(row->words, sizeof row->words, "%s", sb_meta_why_not(g->c));
        return SB_OK;
    }
    for (size_t i = 0; i < count && !status; i++) {
        sb_meta_variant v;
        status = sb_meta_variant_at(kind, i, rows, &v);
        if (status)
            return sb_fail(g->err, status, "out of memory for rows");
        status = try_variant(g, &v, row);
        free(v.rows);
    }
    return status;
}

/* --- a sequence in two calls ------------------------------------------------------------------ */

static size_t output_named(const sb_gate_case *c, const char *name)
{
    size_t i = 0;
    while (i < c->outputs && strcmp(c->output[i].name, name) != 0)
        i++;
    return i;
}

/* The final state of the first call becomes the initial state of the second. */
static int carry(const gate *g, const call *first, sb_gate_case *second)
{
    size_t o = output_named(g->c, g->c->op->state_output);
    for (size_t i = 0; i < second->arrays && o < g->c->outputs; i++) {
        sb_gate_array *a = &second->array[i];
        if (strcmp(a->name, g->c->op->state_input) != 0)
            continue;
        if (a->dtype != first->room[o].dtype || a->bytes != first->room[o].bytes)
            return 0;
        memcpy(a->data, first->room[o].data, (size_t)a->bytes);
        return 1;
    }
    return 0;
}

static sb_status run_part(gate *g, size_t from, size_t count, const call *before, const char *what,
                          sb_gate_meta_row *row, call **out)
{
    sb_meta_variant v = {.rows = sb_alloc(count, sizeof(size_t)), .count = count};
    sb_gate_case *c = NULL;
    sb_status status = v.rows ? SB_OK : sb_fail(g->err, SB_ERR_MEMORY, "out of memory for rows");
    for (size_t i = 0; i < count && !status; i++)
        v.rows[i] = from + i;
    *out = NULL;
    if (!status)
        status = sb_meta_derive(g->c, &v, &c, g->err);
    if (!status && before && !carry(g, before, c))
        snprintf(row->words, sizeof row->words,
                 "the returned state has another type than the state that the kernel takes");
    else if (!status)
        status = call_kernel(g, c, 0xff, what, row, out);
    sb_gate_case_free(c);
    free(v.rows);
    return status;
}

static sb_status cut_at(gate *g, size_t cut, sb_gate_meta_row *row)
{
    size_t rows = sb_meta_rows(g->c), state = output_named(g->c, g->c->op->state_output);
    char what[48];
    call *first, *second = NULL;
    snprintf(what, sizeof what, "in calls of %zu and %zu rows", cut, rows - cut);
    sb_status status = run_part(g, 0, cut, NULL, what, row, &first);
    if (!status && first)
        status = run_part(g, cut, rows - cut, first, what, row, &second);
    for (size_t r = 0; r < rows && first && second; r++)
        compare_row(g, r < cut ? first : second, r < cut ? r : r - cut, r, what, row);
    if (second && state < g->c->outputs)
        compare(g, second, state, 0, 0, g->c->output[state].count, what, row);
    if (first)
        call_free(first);
    if (second)
        call_free(second);
    return status;
}

static sb_status split(gate *g)
{
    const sb_gate_op *op = g->c->op;
    sb_gate_meta_row *row = &g->result->row[SB_GATE_META_split];
    size_t rows = sb_meta_rows(g->c), step = (size_t)op->cut, cuts = 0;
    if (op->rows_independent || !op->state_input || !step)
        return rearrange(g, SB_GATE_META_split);
    sb_status status = SB_OK;
    for (size_t cut = step; cut < rows && cuts < SB_META_CUTS && !status; cut += step, cuts++)
        status = cut_at(g, cut, row);
    if (!cuts)
        snprintf(row->words, sizeof row->words, "%zu rows cannot be split at a multiple of %zu",
                 rows, step);
    return status;
}

/* --- all -------------------------------------------------------------------------------------- */

/* Outputs with the same bits in all elements show nothing. */
static int constant(const gate *g)
{
    for (size_t o = 0; o < g->c->outputs; o++) {
        const sb_gate_target *r = &g->base->room[o];
        size_t width = sb_dtype_bits(r->dtype) / 8, count = g->c->output[o].count;
        for (size_t i = 1; i < count; i++)
            if (memcmp(r->data, r->data + i * width, width) != 0)
                return 0;
    }
    return 1;
}

static void conclude(gate *g)
{
    sb_gate_meta *m = g->result;
    m->verdict = SB_VERDICT_IDENTICAL;
    for (int k = 0; k < SB_GATE_METAS; k++) {
        sb_gate_meta_row *row = &m->row[k];
        if (row->verdict != SB_VERDICT_FAIL)
            row->verdict = row->elements ? SB_VERDICT_IDENTICAL : SB_VERDICT_SKIPPED;
        if (row->verdict == SB_VERDICT_FAIL && m->verdict != SB_VERDICT_FAIL) {
            m->verdict = SB_VERDICT_FAIL;
            snprintf(m->words, sizeof m->words, "%s", row->words);
        }
    }
    if (m->verdict != SB_VERDICT_FAIL && constant(g)) {
        m->verdict = SB_VERDICT_MISTRUSTED;
        snprintf(m->words, sizeof m->words, "every element of the output is the same");
    }
}

sb_status sb_gate_meta_run(const sb_gate_case *c, const sb_gate_meta_options *options,
                           sb_gate_meta *out, sb_error *err)
{
    gate g = {.c = c, .options = options, .result = out, .err = err};
    *out = (sb_gate_meta){.verdict = SB_VERDICT_none};
    sb_status status =
        call_kernel(&g, c, PLAIN, "the first call", &out->row[SB_GATE_META_surroundings], &g.base);
    if (!status)
        status = repeat(&g);
    if (!status)
        status = surround(&g);
    for (int k = SB_GATE_META_alone; k < SB_GATE_META_split && !status; k++)
        status = rearrange(&g, (sb_gate_meta_kind)k);
    if (!status)
        status = split(&g);
    if (!status)
        conclude(&g);
    if (g.base)
        call_free(g.base);
    return status;
}

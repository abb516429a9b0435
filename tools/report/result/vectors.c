#include "tools/report/result/vectors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/report/part/document.h"

static void print_words(const char *title, const char *const *words)
{
    if (!words || !*words)
        return;
    printf("  %s", title);
    for (size_t i = 0; words[i]; i++)
        printf(" %s", words[i]);
    printf("\n");
}

static void print_op(const sb_gate_op *op)
{
    printf("%s: %s (%s)\n", op->name, op->what, op->clause);
    print_words("formats:", op->formats);
    for (size_t i = 0; i < op->param_count; i++) {
        const sb_gate_param *p = &op->params[i];
        printf("  %s=%" PRIu64 ", %" PRIu64 " to %" PRIu64 ": %s\n", p->name, p->value, p->least,
               p->most, p->help);
    }
    print_words("further shapes:", op->shapes);
    if (op->not_regimes)
        printf("  no regimes: %s\n", op->not_regimes);
}

static void print_shape(unsigned rank, const uint64_t *shape, const char *axes)
{
    for (unsigned d = 0; d < rank; d++)
        printf("%s%" PRIu64, d ? "," : "[", shape[d]);
    printf("%s  %s\n", rank ? "]" : "[]", axes ? axes : "");
}

/* The arrays of a case: the names are those of the parameters of a kernel in Python. */
static void print_members(const sb_gate_case *c)
{
    printf("  arrays%s%s, as chosen by --format, --shape and --input:\n", *c->format ? " of " : "",
           c->format);
    for (size_t i = 0; i < c->arrays; i++) {
        const sb_gate_array *a = &c->array[i];
        printf("    in.%-18s %-8s ", a->name, sb_dtype_name(a->dtype));
        print_shape(a->rank, a->shape, a->axes);
    }
    for (size_t i = 0; i < c->outputs; i++) {
        const sb_gate_output *o = &c->output[i];
        printf("    out%s%-*s %-8s ", *o->name ? "." : "", *o->name ? 17 : 18, o->name,
               o->kind == SB_GATE_CHOICES ? "integers" : "values");
        print_shape(o->rank, o->shape, o->axes);
    }
}

void sb_vectors_list_print(const sb_gate_case *c)
{
    for (size_t i = 0; i < sb_gate_op_count(); i++)
        if (!c || sb_gate_op_at(i) == c->op)
            print_op(sb_gate_op_at(i));
    if (c)
        print_members(c);
    printf("\nregimes:\n");
    for (int i = 0; i < SB_GATE_REGIMES; i++)
        printf("  %-13s %s\n", sb_gate_regime_name((sb_gate_regime)i),
               sb_gate_regime_help((sb_gate_regime)i));
    printf("\narithmetics, the tightest first:\n");
    for (size_t i = 0; i < sb_gate_arith_count(); i++) {
        sb_gate_arith ar;
        if (!sb_gate_arith_at(i, &ar))
            printf("  %-15s %s\n", ar.name, sb_gate_arith_help(i));
    }
}

static json_t *words_json(const char *const *words)
{
    json_t *out = json_array();
    for (size_t i = 0; words && words[i]; i++)
        SB_ADD(out, words[i]);
    return out;
}

/* "huge tiny" as a list. */
static json_t *split_json(const char *text)
{
    json_t *out = json_array();
    while (text && *text) {
        size_t n = strcspn(text, " ");
        SB_ADD(out, json_stringn(text, n));
        text += n + strspn(text + n, " ");
    }
    return out;
}

static json_t *op_json(const sb_gate_op *op)
{
    json_t *params = json_array();
    for (size_t i = 0; i < op->param_count; i++) {
        const sb_gate_param *p = &op->params[i];
        json_t *row = json_object();
        SB_PUT(row, "name", p->name);
        SB_PUT(row, "value", p->value);
        SB_PUT(row, "least", p->least);
        SB_PUT(row, "most", p->most);
        SB_PUT(row, "help", p->help);
        SB_ADD(params, row);
    }
    json_t *out = json_object();
    SB_PUT(out, "name", op->name);
    SB_PUT(out, "clause", op->clause);
    SB_PUT(out, "what", op->what);
    SB_PUT(out, "params", params);
    SB_PUT(out, "formats", words_json(op->formats));
    SB_PUT(out, "shapes", words_json(op->shapes));
    SB_PUT(out, "not_regimes", split_json(op->not_regimes));
    return out;
}

static void put_members(json_t *d, const sb_gate_case *c)
{
    json_t *inputs = json_array(), *outputs = json_array();
    for (size_t i = 0; i < c->arrays; i++) {
        const sb_gate_array *a = &c->array[i];
        json_t *row = json_object();
        SB_PUT(row, "name", a->name);
        SB_PUT(row, "dtype", sb_dtype_name(a->dtype));
        SB_PUT(row, "shape", sb_counts_json(a->shape, a->rank));
        SB_PUT(row, "axes", a->axes ? a->axes : "");
        SB_ADD(inputs, row);
    }
    for (size_t i = 0; i < c->outputs; i++) {
        const sb_gate_output *o = &c->output[i];
        json_t *row = json_object();
        SB_PUT(row, "name", o->name);
        SB_PUT(row, "kind", o->kind == SB_GATE_CHOICES ? "choices" : "values");
        SB_PUT(row, "shape", sb_counts_json(o->shape, o->rank));
        SB_PUT(row, "axes", o->axes ? o->axes : "");
        SB_ADD(outputs, row);
    }
    SB_PUT(d, "format", c->format);
    SB_PUT(d, "inputs", inputs);
    SB_PUT(d, "outputs", outputs);
}

json_t *sb_vectors_list_json(const sb_gate_case *c)
{
    json_t *d = sb_document("vectors"), *ops = json_array(), *regimes = json_array(),
           *ariths = json_array();
    for (size_t i = 0; i < sb_gate_op_count(); i++)
        if (!c || sb_gate_op_at(i) == c->op)
            SB_ADD(ops, op_json(sb_gate_op_at(i)));
    for (int i = 0; i < SB_GATE_REGIMES; i++) {
        json_t *row = json_object();
        SB_PUT(row, "name", sb_gate_regime_name((sb_gate_regime)i));
        SB_PUT(row, "help", sb_gate_regime_help((sb_gate_regime)i));
        SB_ADD(regimes, row);
    }
    for (size_t i = 0; i < sb_gate_arith_count(); i++) {
        sb_gate_arith ar;
        if (!sb_gate_arith_at(i, &ar)) {
            json_t *row = json_object();
            SB_PUT(row, "name", ar.name);
            SB_PUT(row, "help", sb_gate_arith_help(i));
            SB_ADD(ariths, row);
        }
    }
    SB_PUT(d, "ops", ops);
    SB_PUT(d, "regimes", regimes);
    SB_PUT(d, "ariths", ariths);
    if (c)
        put_members(d, c);
    return d;
}

/* judge.c - compares a kernel's output with the expected values.
 *
 * V-110: "a value is right if it lies in the interval [RN(real - bound), RN(real + bound)]" */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/judge/compare/verdict.h"
#include "tools/judge/gate/element.h"
#include "tools/judge/gate/gate.h"

static double infinity(void)
{
    return sb_f64_from_bits(0x7ffull << 52);
}

static double size_of(double x)
{
    return x < 0 ? -x : x;
}

static int is_finite(double x)
{
    return x - x == 0.0;
}

/* --- places ----------------------------------------------------------------------------------- */

/* Word `n` of a comma-separated list; "axis" if the list is shorter. */
static void axis_name(const char *axes, unsigned n, char *out, size_t size)
{
    for (; axes && n > 0; n--) {
        axes = strchr(axes, ',');
        axes = axes ? axes + 1 : NULL;
    }
    size_t length = axes ? strcspn(axes, ",") : 0;
    if (length)
        snprintf(out, size, "%.*s", (int)length, axes);
    else
        snprintf(out, size, "axis");
}

void sb_gate_place(const sb_gate_output *output, size_t element, uint64_t *index, char *text,
                   size_t size)
{
    size_t used = 0;
    memset(index, 0, SB_GATE_RANK * sizeof *index);
    for (unsigned a = output->rank; a > 0; a--) {
        uint64_t length = output->shape[a - 1] ? output->shape[a - 1] : 1;
        index[a - 1] = element % length;
        element = (size_t)(element / length);
    }
    snprintf(text, size, output->rank ? "" : "the value");
    for (unsigned a = 0; a < output->rank && used < size; a++) {
        char name[32];
        axis_name(output->axes, a, name, sizeof name);
        int n = snprintf(text + used, size - used, "%s%s %" PRIu64, a ? ", " : "", name, index[a]);
        used += n > 0 ? (size_t)n : 0;
    }
}

/* --- shapes ----------------------------------------------------------------------------------- */

static void shape_text(unsigned rank, const uint64_t *shape, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "[");
    for (unsigned a = 0; a < rank && used + 24 < size; a++)
        used += (size_t)snprintf(out + used, size - used, "%s%" PRIu64, a ? ", " : "", shape[a]);
    snprintf(out + used, size - used, "]");
}

static int same_shape(const sb_gate_output *o, const sb_gate_got *g)
{
    int same = o->rank == g->rank;
    for (unsigned a = 0; same && a < o->rank; a++)
        same = o->shape[a] == g->shape[a];
    return same;
}

/* True if each border between axes of `few` is a border of `many`. Then the elements have the same
 * order, and (4, 6) is not read as (6, 4). */
static int borders_within(unsigned few, const uint64_t *coarse, unsigned many, const uint64_t *fine)
{
    uint64_t at = 1;
    for (unsigned a = 0; a < few; a++) {
        uint64_t border = 1;
        int found = at == 1;
        for (unsigned b = 0; b < many && !found; b++) {
            border *= fine[b];
            found = border == at;
        }
        if (!found)
            return 0;
        at *= coarse[a];
    }
    return 1;
}

/* The number of elements of a shape; 0 if memory could not hold them. */
static uint64_t count_of(unsigned rank, const uint64_t *shape)
{
    uint64_t count = 1;
    for (unsigned a = 0; a < rank; a++) {
        if (!shape[a] || count > (UINT64_C(1) << 48) / shape[a])
            return 0;
        count *= shape[a];
    }
    return count;
}

/* V-111: "The axes of an output may be merged or split" */
static int fits(const sb_gate_output *o, const sb_gate_got *g)
{
    if (count_of(g->rank, g->shape) != o->count)
        return 0;
    return same_shape(o, g) || borders_within(o->rank, o->shape, g->rank, g->shape) ||
           borders_within(g->rank, g->shape, o->rank, o->shape);
}

static void tensor_name(const sb_gate_output *o, char *out, size_t size)
{
    snprintf(out, size, "out%s%s", *o->name ? "." : "", o->name);
}

static sb_status check_one(const sb_gate_output *o, const sb_gate_got *g, sb_gate_result *r,
                           sb_error *err)
{
    char name[64], found[128], expected[128];
    tensor_name(o, name, sizeof name);
    int known =
        o->kind == SB_GATE_VALUES ? sb_element_is_value(g->dtype) : sb_element_is_whole(g->dtype);
    if (!known)
        return sb_fail(err, SB_ERR_INPUT, "%s: found %s, expected %s", name,
                       g->dtype < SB_DTYPE_COUNT ? sb_dtype_name(g->dtype) : "no type",
                       o->kind == SB_GATE_VALUES ? "F32, BF16, F16 or F64"
                                                 : "whole numbers: U8, I8, a code of FP8, I16, "
                                                   "U16, I32, U32, I64 or U64");
    shape_text(g->rank > SB_GATE_RANK ? SB_GATE_RANK : g->rank, g->shape, found, sizeof found);
    shape_text(o->rank, o->shape, expected, sizeof expected);
    if (g->rank > SB_GATE_RANK || !fits(o, g))
        return sb_fail(err, SB_ERR_INPUT, "%s: found the shape %s, expected %s (%s)", name, found,
                       expected, o->axes ? o->axes : "");
    if (!same_shape(o, g))
        snprintf(r->note, sizeof r->note, "%s has the shape %s and is read as %s (%s)", name, found,
                 expected, o->axes ? o->axes : "");
    return SB_OK;
}

static sb_status check_all(const sb_gate_case *c, const sb_gate_got *got, sb_gate_result *r,
                           sb_error *err)
{
    if (!got[0].data)
        return sb_fail(err, SB_ERR_INPUT, "out: not found; expected the output of %s", c->op->name);
    sb_status status = SB_OK;
    for (size_t i = 0; i < c->outputs && !status; i++)
        if (got[i].data)
            status = check_one(&c->output[i], &got[i], r, err);
    return status;
}

/* --- elements --------------------------------------------------------------------------------- */

/* The judgement of one output. */
typedef struct judged {
    const sb_gate_case *c;
    const sb_gate_arith *ar;
    const sb_gate_output *o;
    const sb_gate_got *got;
    size_t number;
    const double *bound; /* NULL: all bits have to match */
    int negative;        /* some expected choices are negative */
} judged;

/* The judgement of one element. */
typedef struct finding {
    double found, ratio;
    int identical, near_tie, unbounded;
} finding;

static void judge_value(const judged *j, size_t i, finding *f)
{
    f->found = sb_element_value(j->got->dtype, j->got->data, i, 0);
    f->identical = sb_element_bits(j->got->dtype, j->got->data, i) ==
                   sb_element_bits_of(j->got->dtype, j->o->exact[i]);
    if (!j->bound) {
        f->ratio = f->identical ? 0.0 : infinity();
        return;
    }
    /* V-110: "An element that the arithmetic does not bound is right only with the bits of profile
     * exact" */
    if (!is_finite(j->bound[i]) && f->found == f->found) {
        f->unbounded = !f->identical;
        return;
    }
    double bound = j->bound[i], error = sb_element_error(j->got->dtype, f->found, j->o->real[i]);
    f->ratio = error == 0.0 ? 0.0 : bound > 0.0 ? error / bound : infinity();
    if (!sb_element_inside(j->got->dtype, f->found, j->o->real[i], bound)) {
        if (!(f->ratio > 1.0)) /* on the border of its interval, or NaN */
            f->ratio = f->found != f->found ? infinity() : 1.0 + 0x1p-52;
    } else if (f->ratio > 1.0) {
        f->ratio = 1.0;
    }
}

/* V-112: "Where an operation makes each choice only once along the last axis, a choice that stands
 * there twice is not open" */
static int made_again(const judged *j, size_t i, double found)
{
    size_t width = (size_t)j->o->shape[j->o->rank - 1], first = i / width * width, times = 0;
    for (size_t e = first; e < first + width && j->o->distinct; e++)
        times += sb_element_value(j->got->dtype, j->got->data, e, j->negative) == found;
    return times > 1;
}

/* V-112: "and all choices of its row are possible together" */
static int stands_with_others(const judged *j, size_t i)
{
    size_t width = (size_t)j->o->shape[j->o->rank - 1], first = i / width * width;
    double *row = j->c->op->together ? sb_alloc(width, sizeof *row) : NULL;
    for (size_t e = 0; row && e < width; e++)
        row[e] = sb_element_value(j->got->dtype, j->got->data, first + e, j->negative);
    int yes =
        !j->c->op->together || (row && j->c->op->together(j->c, j->ar, j->number, first, row));
    free(row);
    return yes;
}

/* V-112: "A choice is right if it is the one of profile exact" */
static void judge_choice(const judged *j, size_t i, finding *f)
{
    const sb_gate_op *op = j->c->op;
    f->found = sb_element_value(j->got->dtype, j->got->data, i, j->negative);
    f->identical = f->found == (double)j->o->exact[i];
    f->near_tie = !f->identical && !j->ar->exact && op->open && !made_again(j, i, f->found) &&
                  op->open(j->c, j->ar, j->number, i, f->found) && stands_with_others(j, i);
    f->ratio = f->identical || f->near_tie ? 0.0 : infinity();
}

/* Counts the kind of a value that is outside. */
static void classify(const judged *j, size_t i, const finding *f, sb_gate_tally *t)
{
    double real = j->o->real[i].hi, bound = j->bound ? j->bound[i] : 0.0;
    double room = bound + size_of(real) * 0x1p-7;
    if (f->found != f->found)
        t->nan++;
    else if (size_of(f->found) == infinity())
        t->infinite++;
    else if (f->found == 0.0)
        t->zero++;
    else if (f->found * real < 0.0 && size_of(f->found + real) <= room)
        t->sign++;
}

static void remember(const judged *j, size_t i, const finding *f, sb_gate_result *r)
{
    int outside = f->ratio > 1.0;
    if (outside && !r->has_first)
        r->first = i;
    else if (r->has_first || (f->ratio <= r->worst && r->count))
        return;
    r->nearest = outside ? r->nearest : i;
    r->has_first = outside;
    r->output = j->number;
    r->found = f->found;
    r->expected = j->o->real[i].hi;
    r->bound = j->bound ? j->bound[i] : 0.0;
}

static void judge_output(const judged *j, sb_gate_result *r)
{
    sb_gate_tally *t = &r->of[j->number];
    t->given = 1;
    for (size_t i = 0; i < j->o->count; i++) {
        finding f = {0};
        if (j->o->kind == SB_GATE_VALUES)
            judge_value(j, i, &f);
        else
            judge_choice(j, i, &f);
        remember(j, i, &f, r);
        t->count++;
        t->identical += (size_t)f.identical;
        t->near_ties += (size_t)f.near_tie;
        t->unbounded += (size_t)f.unbounded;
        t->worst = f.ratio > t->worst ? f.ratio : t->worst;
        r->worst = f.ratio > r->worst ? f.ratio : r->worst;
        r->count++;
        if (f.ratio > 1.0) {
            t->outside++;
            if (j->o->kind == SB_GATE_VALUES)
                classify(j, i, &f, t);
        }
    }
    r->identical += t->identical;
    r->outside += t->outside;
    r->near_ties += t->near_ties;
    r->unbounded += t->unbounded;
}

/* --- words ------------------------------------------------------------------------------------ */

static void add_kind(char *out, size_t size, size_t count, const char *what)
{
    size_t used = strlen(out);
    if (count)
        snprintf(out + used, size - used, "%s%zu %s", used ? ", " : "", count, what);
}

/* ": of these 3 NaN, 2 zero", or an empty text. */
static void kinds(const sb_gate_result *r, char *out, size_t size)
{
    sb_gate_tally all = {0};
    char list[160] = "";
    for (size_t i = 0; i < SB_GATE_OUTPUTS; i++) {
        all.nan += r->of[i].nan;
        all.infinite += r->of[i].infinite;
        all.zero += r->of[i].zero;
        all.sign += r->of[i].sign;
    }
    add_kind(list, sizeof list, all.nan, "NaN");
    add_kind(list, sizeof list, all.infinite, "infinite");
    add_kind(list, sizeof list, all.zero, "zero");
    add_kind(list, sizeof list, all.sign, "with the other sign");
    snprintf(out, size, "%s%s%s", *list ? " (" : "", list, *list ? ")" : "");
}

/* Text after a bound: for narrow types it holds before the rounding. */
static const char *rounding(sb_dtype dtype)
{
    return dtype == SB_DTYPE_BF16  ? " and its rounding to BF16"
           : dtype == SB_DTYPE_F16 ? " and its rounding to F16"
                                   : "";
}

static void speak(const sb_gate_case *c, const sb_gate_arith *ar, const sb_gate_got *got,
                  sb_gate_result *r)
{
    const sb_gate_output *o = &c->output[r->output];
    char name[64], place[160], what[200], ratio[64] = "";
    tensor_name(o, name, sizeof name);
    sb_gate_place(o, r->has_first ? r->first : r->nearest, r->index, place, sizeof place);
    kinds(r, what, sizeof what);
    if (r->identical == r->count)
        snprintf(r->words, sizeof r->words, "all %zu elements have the same bits as profile exact",
                 r->count);
    else if (!r->outside && r->unbounded)
        snprintf(r->words, sizeof r->words,
                 "%zu of %zu elements have no bound under %s: the output cannot be judged",
                 r->unbounded, r->count, ar->name);
    else if (!r->outside && (o->kind == SB_GATE_CHOICES || r->worst == 0.0))
        snprintf(
            r->words, sizeof r->words,
            "all %zu elements are as expected; %zu of them are choices that the bound leaves open",
            r->count, r->near_ties);
    else if (o->kind == SB_GATE_CHOICES || ar->exact)
        snprintf(r->words, sizeof r->words,
                 "%zu of %zu elements differ%s; first %s: %s is %s, expected %.9g", r->outside,
                 r->count, what, name, place, sb_element_print(r->found).text,
                 (double)o->exact[r->has_first ? r->first : r->nearest]);
    else {
        if (r->has_first && r->bound > 0.0 && r->worst - r->worst == 0.0)
            snprintf(ratio, sizeof ratio, "; worst error/bound %.3g", r->worst);
        snprintf(r->words, sizeof r->words,
                 "%zu of %zu elements are outside of their bound%s; %s %s: %s is %s, expected %.9g "
                 "within %.3g%s%s",
                 r->outside, r->count, what, r->has_first ? "first" : "nearest", name, place,
                 sb_element_print(r->found).text, r->expected, r->bound,
                 rounding(got[r->output].dtype), ratio);
    }
}

/* --- all -------------------------------------------------------------------------------------- */

static int has_negative(const sb_gate_output *o)
{
    for (size_t i = 0; i < o->count; i++)
        if (o->exact[i] < 0.0f)
            return 1;
    return 0;
}

static sb_status judge_one(const sb_gate_case *c, const sb_gate_arith *ar, const sb_gate_got *got,
                           size_t i, sb_gate_result *r, sb_error *err)
{
    const sb_gate_output *o = &c->output[i];
    judged j = {.c = c, .ar = ar, .o = o, .got = &got[i], .number = i};
    int bounded = o->kind == SB_GATE_VALUES && !ar->exact;
    double *bound = bounded ? sb_alloc(o->count, sizeof *bound) : NULL;
    if (bounded && !bound)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu bounds", o->count);
    sb_status status = bounded ? sb_gate_bound(c, ar, i, bound, err) : SB_OK;
    j.bound = bound;
    j.negative = o->kind == SB_GATE_CHOICES && has_negative(o);
    if (!status)
        judge_output(&j, r);
    free(bound);
    return status;
}

sb_status sb_gate_judge(const sb_gate_case *c, const sb_gate_arith *ar, const sb_gate_got *got,
                        sb_gate_result *out, sb_error *err)
{
    *out = (sb_gate_result){0};
    sb_status status = check_all(c, got, out, err);
    for (size_t i = 0; i < c->outputs && !status; i++)
        if (got[i].data)
            status = judge_one(c, ar, got, i, out, err);
    if (status)
        return status;
    out->verdict = out->outside                   ? SB_VERDICT_FAIL
                   : !out->count                  ? SB_VERDICT_MISTRUSTED
                   : out->unbounded               ? SB_VERDICT_MISTRUSTED
                   : out->near_ties               ? SB_VERDICT_NEAR_TIE
                   : out->identical == out->count ? SB_VERDICT_IDENTICAL
                                                  : SB_VERDICT_WITHIN;
    speak(c, ar, got, out);
    return SB_OK;
}

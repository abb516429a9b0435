/* judge.c - judgements of ref/samebit.h. */
#include "ref/container/show.h"
#include "tools/api/cases.h"
#include "tools/judge/gate/element.h"

/* The caller's arrays in the order of the outputs. */
static sb_status take_got(const samebit_case *c, const samebit_array *got, size_t count,
                          sb_gate_got *out, sb_error *err)
{
    memset(out, 0, SB_GATE_OUTPUTS * sizeof *out);
    for (size_t i = 0; i < count; i++) {
        const char *name = got[i].name && *got[i].name ? got[i].name : "out";
        size_t o = 0;
        sb_dtype dtype;
        while (o < c->c->outputs && strcmp(c->output[o].text, name) != 0)
            o++;
        if (o == c->c->outputs)
            return sb_fail(err, SB_ERR_USAGE, "'%s' is not an output of %s", SB_SHOW(name),
                           c->c->op->name);
        if (out[o].data)
            return sb_fail(err, SB_ERR_USAGE, "%s is given twice", SB_SHOW(name));
        sb_status status = sb_api_whole(&got[i], &dtype, err);
        if (status)
            return status;
        if (got[i].rank > SB_GATE_RANK)
            return sb_fail(err, SB_ERR_USAGE, "%s has %u dimensions, expected %u", SB_SHOW(name),
                           (unsigned)got[i].rank, c->c->output[o].rank);
        out[o] = (sb_gate_got){.dtype = dtype, .rank = got[i].rank, .data = got[i].data};
        memcpy(out[o].shape, got[i].shape, got[i].rank * sizeof *got[i].shape);
    }
    if (!out[0].data)
        return sb_fail(err, SB_ERR_USAGE, "there is no array 'out' to be judged");
    return SB_OK;
}

samebit_status sb_api_verdict(sb_verdict verdict)
{
    if (verdict == SB_VERDICT_FAIL)
        return SAMEBIT_FAIL;
    return verdict == SB_VERDICT_MISTRUSTED ? SAMEBIT_MISTRUSTED : SAMEBIT_OK;
}

static void show_result(const sb_gate_result *from, const char *arith, samebit_result *to)
{
    *to = (samebit_result){.status = sb_api_verdict((sb_verdict)from->verdict),
                           .count = from->count,
                           .identical = from->identical,
                           .outside = from->outside,
                           .near_ties = from->near_ties,
                           .worst = from->worst,
                           .has_first = from->has_first != 0,
                           .output = (uint32_t)from->output,
                           .first = from->first,
                           .nearest = from->nearest,
                           .found = from->found,
                           .expected = from->expected,
                           .bound = from->bound};
    memcpy(to->index, from->index, sizeof from->index);
    SB_API_TEXT(to->verdict, sb_verdict_name((sb_verdict)from->verdict));
    SB_API_TEXT(to->arith.text, arith);
    SB_API_TEXT(to->words, from->words);
    SB_API_TEXT(to->note, from->note);
}

/* Judges by a named arithmetic, or by the tightest that passes; by the last one if none passes. */
static sb_status judge_got(const samebit_case *c, const char *name, const sb_gate_got *got,
                           sb_gate_arith *ar, sb_gate_result *out, sb_error *err)
{
    size_t row = 0;
    if (name) {
        sb_status status = sb_gate_arith_of(name, ar, err);
        return status ? status : sb_gate_judge(c->c, ar, got, out, err);
    }
    sb_status status = sb_gate_infer(c->c, got, &row, out, err);
    if (row == sb_gate_arith_count())
        row--;
    return status ? status : sb_gate_arith_at(row, ar);
}

samebit_status samebit_case_judge(const samebit_case *c, const char *arith,
                                  const samebit_array *got, size_t count, samebit_result *out,
                                  samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(c && got && out);
    sb_error *error = sb_api_error(err);
    sb_gate_got taken[SB_GATE_OUTPUTS];
    sb_gate_result result;
    sb_gate_arith ar;
    samebit_result shown;
    sb_status status = sb_api_start(error);
    if (!status)
        status = take_got(c, got, count, taken, error);
    if (!status)
        status = judge_got(c, arith, taken, &ar, &result, error);
    if (status)
        return sb_api_status(status);
    show_result(&result, ar.name, &shown);
    status = sb_api_give(out, out->size, &shown, sizeof shown, error);
    return status ? sb_api_status(status) : shown.status;
}

/* Mistrusts a result if the inputs could not have revealed mistakes. */
static sb_status trust(const samebit_case *c, const sb_gate_power *power, samebit_result *result,
                       sb_error *err)
{
    samebit_result shown;
    sb_gate_result whole = {0};
    sb_status status = sb_api_take(&shown, sizeof shown, result, result->size, err);
    if (status || shown.status != SAMEBIT_OK)
        return status;
    for (int v = 0; v <= SB_VERDICT_FAIL; v++)
        if (strcmp(sb_verdict_name((sb_verdict)v), shown.verdict) == 0)
            whole.verdict = v;
    SB_API_TEXT(whole.words, shown.words);
    SB_API_TEXT(whole.note, shown.note);
    whole.count = (size_t)shown.count;
    sb_gate_trust(c->c, power, &whole);
    shown.status = sb_api_verdict((sb_verdict)whole.verdict);
    SB_API_TEXT(shown.verdict, sb_verdict_name((sb_verdict)whole.verdict));
    SB_API_TEXT(shown.words, whole.words);
    SB_API_TEXT(shown.note, whole.note);
    return sb_api_give(result, result->size, &shown, sizeof shown, err);
}

samebit_status samebit_case_power(const samebit_case *c, const char *arith, const char *dtype,
                                  samebit_power *out, samebit_result *result, samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(c && arith && out);
    sb_error *error = sb_api_error(err);
    sb_dtype type = SB_DTYPE_F32;
    sb_gate_got all[SB_GATE_OUTPUTS];
    sb_gate_arith ar;
    sb_gate_power power;
    sb_status status = sb_api_start(error);
    if (!status && dtype && !sb_dtype_find(dtype, &type))
        status = sb_fail(error, SB_ERR_USAGE, "'%s' is not a dtype of safetensors", SB_SHOW(dtype));
    if (!status && !sb_element_is_value(type) && !sb_element_is_whole(type))
        status = sb_fail(error, SB_ERR_USAGE, "%s is not a type of outputs", sb_dtype_name(type));
    /* if the first output has choices, outputs with values count as F32 */
    for (size_t i = 0; i < SB_GATE_OUTPUTS; i++)
        all[i] = (sb_gate_got){.dtype = sb_element_is_value(type) ? type : SB_DTYPE_F32,
                               .data = (const unsigned char *)""};
    if (!status)
        status = sb_gate_arith_of(arith, &ar, error);
    if (!status)
        status = sb_gate_power_in(c->c, &ar, all, &power, error);
    if (!status && result)
        status = trust(c, &power, result, error);
    if (status)
        return sb_api_status(status);
    samebit_power shown = {.planted = power.planted,
                           .caught = power.caught,
                           .of_ops = power.of_ops,
                           .of_ops_caught = power.of_ops_caught};
    SB_API_TEXT(shown.shown, power.shown);
    SB_API_TEXT(shown.missed, power.missed);
    return sb_api_status(sb_api_give(out, out->size, &shown, sizeof shown, error));
}

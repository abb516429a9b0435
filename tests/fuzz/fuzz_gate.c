/* fuzz_gate.c - any bytes as test vectors, as the output of a kernel, and as an earlier judgement.
 * They are refused in one line, or a case is judged. Its verdict agrees with its counts, and its
 * message has no line breaks. */
#include "tests/fuzz/fuzz.h"

#include "tests/gate/tiny_op.h"
#include "tools/report/result/judge_baseline.h"
#include "tools/judge/compare/verdict.h"
#include "tools/judge/gate/case.h"
#include "tools/judge/gate/file.h"
#include "tools/judge/gate/got.h"

const char fuzz_name[] = "gate";
unsigned long fuzz_accepted;

/* The case that outputs are compared with; made once. */
static const sb_gate_case *own_case(void)
{
    static sb_gate_case *c;
    const sb_gate_request r = {.shape = "rows=2,k=3", .input = SB_DTYPE_F32, .seed = 42};
    if (!c)
        FUZZ_CHECK(!sb_gate_case_of(tiny_op(), &r, &c, NULL));
    return c;
}

static void check_result(const sb_gate_case *c, const sb_gate_result *r)
{
    size_t count = 0, outside = 0;
    for (size_t i = 0; i < c->outputs; i++) {
        const sb_gate_tally *t = &r->of[i];
        FUZZ_CHECK(!t->given || t->count == c->output[i].count);
        FUZZ_CHECK(t->identical + t->outside + t->near_ties <= t->count);
        FUZZ_CHECK(t->nan + t->infinite + t->zero + t->sign <= t->outside);
        count += t->count;
        outside += t->outside;
    }
    FUZZ_CHECK(count == r->count && outside == r->outside && r->of[0].given);
    FUZZ_CHECK((outside > 0) == (r->verdict == SB_VERDICT_FAIL) && (outside > 0) == r->has_first);
    FUZZ_CHECK((outside > 0) == (r->worst > 1.0));
    FUZZ_CHECK(!strchr(r->words, '\n') && strlen(r->words) > 10);
}

static void judge(const sb_gate_case *c, const sb_gate_gots *gots)
{
    static const char *const names[] = {"exact", "fp32", "bf16_mma+bf16"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        sb_gate_arith ar;
        sb_gate_result r;
        sb_error err = {{0}};
        FUZZ_CHECK(!sb_gate_arith_of(names[i], &ar, NULL));
        sb_status status = sb_gate_judge(c, &ar, gots->got, &r, &err);
        FUZZ_CHECK(!status || (status == SB_ERR_INPUT && strncmp(err.text, "out", 3) == 0));
        if (status)
            return;
        check_result(c, &r);
        fuzz_accepted++;
    }
}

static void read_got(const uint8_t *data, size_t size)
{
    sb_gate_gots gots;
    sb_error err = {{0}};
    sb_status status = sb_gate_got_parse(data, size, "input", own_case(), &gots, &err);
    if (status) {
        fuzz_check_refusal(status, &err);
        return;
    }
    FUZZ_CHECK(gots.got[0].data && strlen(gots.ignored) < sizeof gots.ignored);
    judge(own_case(), &gots);
    sb_gate_got_close(&gots);
}

static void read_case(const uint8_t *data, size_t size)
{
    sb_gate_case *c = NULL;
    sb_gate_arith ar;
    sb_error err = {{0}};
    sb_status status = sb_gate_parse(data, size, "input", tiny_find, &c, &ar, &err);
    if (status) {
        fuzz_check_refusal(status, &err);
        return;
    }
    FUZZ_CHECK(c->outputs == 2 && c->arrays == 2 && c->output[0].count > 0);
    fuzz_accepted++;
    sb_gate_case_free(c);
}

static void read_baseline(const uint8_t *data, size_t size)
{
    json_t *d = NULL;
    sb_judge_change change;
    sb_error err = {{0}};
    sb_status status = sb_judge_baseline_parse((const char *)data, size, "input", &d, &err);
    if (status) {
        fuzz_check_refusal(status, &err);
        return;
    }
    status = sb_judge_baseline_compare(d, d, "input", &change, &err);
    FUZZ_CHECK(!status || status == SB_ERR_INPUT); /* two cases have the same name */
    if (!status)
        sb_judge_change_free(&change);
    fuzz_accepted++;
    json_decref(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_case(data, size);
    read_got(data, size);
    read_baseline(data, size);
    return 0;
}

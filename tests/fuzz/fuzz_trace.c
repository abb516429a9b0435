/* fuzz_trace.c - any bytes as a trace: trace.json, a NUL, and the bytes of the file of every step.
 * They are refused in one line, or give steps whose arrays have the declared rows, and the audit
 * finishes. */
#include "tests/fuzz/fuzz.h"

#include "ref/run/session.h"
#include "tools/judge/trace/audit.h"
#include "tools/judge/trace/names.h"
#include "tools/judge/trace/reader.h"

const char fuzz_name[] = "trace";
unsigned long fuzz_accepted;

static void check_values(const sb_step_values *values)
{
    for (size_t i = 0; i < values->count; i++) {
        const sb_step_value *v = &values->items[i];
        float sum = 0;
        FUZZ_CHECK(v->rows > 0 && v->cols > 0 && v->name[0] && (v->data || v->has_digest));
        for (size_t k = 0; v->data && k < v->rows * v->cols; k++) {
            sum += v->data[k]; /* reads all of the data */
            FUZZ_CHECK(!sb_tap_is_ids(v->name) || (v->data[k] >= 0 && v->data[k] < 0x1p24f));
        }
        (void)sum;
    }
}

static void check_step(const sb_trace *t, const sb_step *s)
{
    FUZZ_CHECK(s->logits_count <= s->row_count);
    for (size_t i = 0; i < s->row_count; i++)
        FUZZ_CHECK(s->rows[i].token < t->head.vocab_size &&
                   s->rows[i].position < SB_POSITION_LIMIT &&
                   s->rows[i].sequence < SB_TRACE_MAX_SEQUENCES);
    for (size_t i = 0; i < s->round_count; i++) {
        const sb_round *r = &s->rounds[i].round;
        FUZZ_CHECK(r->drafted <= SB_MAX_DRAFTS && r->accepted <= r->drafted);
        FUZZ_CHECK(r->emitted >= 1 && r->emitted <= r->accepted + 1);
    }
    for (size_t i = 0; i < s->taps.count; i++) {
        const sb_step_value *v = &s->taps.items[i];
        FUZZ_CHECK(v->rows <= s->row_count);
        for (size_t row = 0; row < s->row_count; row++)
            FUZZ_CHECK(sb_step_logits_row(s, v, row) < (long long)v->rows);
    }
    check_values(&s->taps);
    for (size_t i = 0; i < s->state_count; i++)
        check_values(&s->states[i].pieces);
}

/* Reads a step from these bytes, as sb_trace_step does from a file. */
static sb_status read_step(sb_trace *t, size_t i, const uint8_t *bytes, size_t size, sb_step *out,
                           sb_error *err)
{
    *out = t->steps[i]; /* each step is read once, and takes over the memory of its outline */
    t->steps[i] = (sb_step){.number = 0};
    if (!t->tensors[i])
        return SB_OK;
    return sb_trace_read_arrays(t, i, bytes, size, "input", out, err);
}

static void read_steps(sb_trace *t, const uint8_t *bytes, size_t size)
{
    sb_audit *audit = NULL;
    sb_error err = {{0}};
    sb_status status = sb_audit_new(NULL, NULL, &audit, &err);
    for (size_t i = 0; i < t->count && !status; i++) {
        sb_step step;
        status = read_step(t, i, bytes, size, &step, &err);
        if (status)
            fuzz_check_refusal(status, &err);
        else
            check_step(t, &step);
        if (!status)
            status = sb_audit_step(audit, &step, &err);
        sb_step_clear(&step);
    }
    if (!status)
        fuzz_accepted++;
    sb_audit_free(audit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, 0, size);
    size_t text = end ? (size_t)(end - data) : size, rest = end ? size - text - 1 : 0;
    sb_trace *t = calloc(1, sizeof *t);
    sb_error err = {{0}};
    if (!t)
        return 0;
    sb_status status = sb_trace_read_list((const char *)data, text, "input", t, &err);
    if (status)
        fuzz_check_refusal(status, &err);
    else
        read_steps(t, end ? end + 1 : data, rest);
    sb_trace_close(t);
    return 0;
}

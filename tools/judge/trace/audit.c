#include "tools/judge/trace/audit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/trace/audit_inside.h"

sb_status sb_audit_new(const sb_config *config, const sb_trace_head *head, sb_audit **out,
                       sb_error *err)
{
    sb_audit *a = sb_alloc(1, sizeof *a);
    sb_history *history = sb_history_new();
    if (!a || !history) {
        free(a);
        sb_history_free(history);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for an audit");
    }
    a->config = config;
    a->history = history;
    if (head) {
        a->prefix = head->prefix;
        a->block = head->prefix_block;
    }
    *out = a;
    return SB_OK;
}

void sb_audit_free(sb_audit *a)
{
    if (!a)
        return;
    sb_history_free(a->history);
    free(a->courses);
    free(a->owners);
    free(a);
}

void sb_audit_add(sb_audit *a, const char *check, uint64_t step, uint32_t sequence, long long row,
                  const char *format, ...)
{
    if (a->found++ >= SB_FINDINGS)
        return;
    sb_finding *f = &a->findings[a->found - 1];
    va_list args;
    *f = (sb_finding){.step = step, .sequence = sequence, .row = row};
    snprintf(f->check, sizeof f->check, "%s", check);
    va_start(args, format);
    vsnprintf(f->words, sizeof f->words, format, args);
    va_end(args);
}

void sb_finding_text(const sb_finding *f, char *out, size_t size)
{
    char row[32] = "";
    if (f->row >= 0)
        snprintf(row, sizeof row, ", row %lld", f->row);
    snprintf(out, size, "%s: step %" PRIu64 "%s, sequence %u: %s", f->check, f->step, row,
             (unsigned)f->sequence, f->words);
}

const sb_audit_counts *sb_audit_count(const sb_audit *a)
{
    return &a->counts;
}

const sb_level *sb_audit_level(const sb_audit *a)
{
    return &a->level;
}

size_t sb_audit_findings(const sb_audit *a, const sb_finding **first)
{
    *first = a->findings;
    return a->found;
}

/* --- room ------------------------------------------------------------------------------------- */

/* Item i of an array that grows and starts zeroed. */
static void *grown(void **items, size_t *room, size_t i, size_t size)
{
    if (i >= *room) {
        size_t more = i < 8 ? 16 : 2 * i;
        char *new = sb_realloc(*items, more, size);
        if (!new)
            return NULL;
        memset(new + *room *size, 0, (more - *room) * size);
        *items = new;
        *room = more;
    }
    return (char *)*items + i * size;
}

sb_course *sb_audit_course(sb_audit *a, uint32_t sequence)
{
    void *items = a->courses;
    sb_course *c = grown(&items, &a->course_room, sequence, sizeof *c);
    a->courses = items;
    return c;
}

static sb_owner *owner_of(sb_audit *a, uint32_t slot)
{
    void *items = a->owners;
    sb_owner *o = grown(&items, &a->owner_room, slot, sizeof *o);
    a->owners = items;
    return o;
}

/* --- slots ------------------------------------------------------------------------------------ */

/* U-4: "Two sequences that both go on must not read the same slot" */
static sb_status check_slot(sb_audit *a, const sb_course *c, const sb_block *b, sb_error *err)
{
    const sb_step_row *row = &b->step->rows[b->first];
    if (row->slot == SB_NO_SLOT)
        return SB_OK;
    sb_owner *o = owner_of(a, row->slot);
    if (!o)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for an audit");
    int other = o->used && o->sequence != row->sequence;
    if (other && o->step == b->step->number)
        sb_audit_add(a, "slot", b->step->number, row->sequence, (long long)b->first,
                     "slot %u is also read by sequence %u in this step", (unsigned)row->slot,
                     (unsigned)o->sequence);
    else if (other && c->seen && c->slot == row->slot)
        sb_audit_add(a, "slot", b->step->number, row->sequence, (long long)b->first,
                     "slot %u was read by sequence %u in step %" PRIu64
                     ", between this call and the previous call of its own sequence (step %" PRIu64
                     ")",
                     (unsigned)row->slot, (unsigned)o->sequence, o->step, c->call);
    *o = (sb_owner){1, row->sequence, b->step->number};
    return SB_OK;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* U-3: "positions of one sequence follow one another without a gap" */
static void check_start(sb_audit *a, const sb_course *c, const sb_block *b)
{
    const sb_step_row *row = &b->step->rows[b->first];
    uint64_t n = b->step->number;
    long long at = (long long)b->first;
    if (!c->seen) {
        sb_audit_begin(a, c, b);
        return;
    }
    if (c->was_cut)
        sb_audit_add(a, "round", n, row->sequence, at,
                     "round %" PRIu64 " accepted %zu drafts and emitted %zu tokens: only the last "
                     "round of a sequence may do that, but the sequence continues",
                     c->round, c->accepted, c->emitted);
    if (c->open ? row->position < c->least || row->position > c->next : row->position != c->next)
        sb_audit_add(a, "position", n, row->sequence, at,
                     "begins at position %" PRIu64 ", expected %s%" PRIu64 "%s", row->position,
                     c->open ? "at most " : "", c->next,
                     c->has_round ? ", the end of the previous round" : "");
    else if (c->has_token && row->position == c->next && row->token != c->token)
        sb_audit_add(a, "token", n, row->sequence, at,
                     "feeds token %u at position %" PRIu64 ", expected %u, which round %" PRIu64
                     " emitted last",
                     (unsigned)row->token, row->position, (unsigned)c->token, c->round);
}

static void check_block(sb_audit *a, const sb_block *b)
{
    const sb_step_row *rows = b->step->rows;
    for (size_t i = b->first + 1; i < b->end; i++) {
        if (rows[i].position != rows[i - 1].position + 1)
            sb_audit_add(a, "position", b->step->number, rows[i].sequence, (long long)i,
                         "is at position %" PRIu64 ", expected %" PRIu64
                         ", one after the previous row",
                         rows[i].position, rows[i - 1].position + 1);
        if (rows[i].kind != rows[b->first].kind)
            sb_audit_add(a, "kind", b->step->number, rows[i].sequence, (long long)i,
                         "is of kind %s, but the previous row of kind %s",
                         sb_call_kind_name(rows[i].kind), sb_call_kind_name(rows[b->first].kind));
    }
    if (rows[b->first].kind == SB_CALL_decode && b->end - b->first > 1)
        sb_audit_add(a, "kind", b->step->number, rows[b->first].sequence, (long long)b->first,
                     "begins %zu rows of kind decode, expected a single row", b->end - b->first);
}

/* Checks that the rows of one sequence are contiguous. */
static void check_together(sb_audit *a, const sb_block *b)
{
    for (size_t i = 0; i < b->first; i++)
        if (b->step->rows[i].sequence == b->step->rows[b->first].sequence &&
            b->step->rows[i].kind != SB_CALL_draft) {
            sb_audit_add(
                a, "rows", b->step->number, b->step->rows[b->first].sequence, (long long)b->first,
                "is separated from row %zu of the same sequence by rows of other sequences", i);
            return;
        }
}

static sb_status audit_block(sb_audit *a, const sb_block *b, sb_error *err)
{
    const sb_step_row *row = &b->step->rows[b->first];
    sb_course *c = sb_audit_course(a, row->sequence);
    if (!c)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for an audit");
    a->counts.sequences += !c->seen;
    check_together(a, b);
    check_block(a, b);
    check_start(a, c, b);
    sb_status status = check_slot(a, c, b, err);
    sb_audit_round(a, c, b);
    c->seen = 1;
    c->slot = row->slot;
    c->call = b->step->number;
    c->drafted = 0;
    return status;
}

static sb_status audit_drafts(sb_audit *a, const sb_step *step, sb_error *err)
{
    size_t others = 0;
    for (size_t i = 0; i < step->row_count; i++) {
        if (step->rows[i].kind != SB_CALL_draft) {
            others++;
            continue;
        }
        sb_course *c = sb_audit_course(a, step->rows[i].sequence);
        if (!c)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for an audit");
        sb_audit_draft(a, c, step, i);
    }
    if (others && others != step->row_count)
        sb_audit_add(a, "kind", step->number, step->rows[0].sequence, -1,
                     "mixes rows of kind draft with other rows: drafts need steps of their own");
    return SB_OK;
}

/* Checks that every round of a step has its rows in this step, and that a sequence has only one
 * round. */
static void check_rounds(sb_audit *a, const sb_step *step)
{
    for (size_t i = 0; i < step->round_count; i++) {
        const sb_step_round *r = &step->rounds[i];
        int has_rows = 0, twice = 0;
        for (size_t k = 0; k < step->row_count; k++)
            has_rows |=
                step->rows[k].sequence == r->sequence && step->rows[k].kind != SB_CALL_draft;
        for (size_t k = 0; k < i; k++)
            twice |= step->rounds[k].sequence == r->sequence;
        if (!has_rows || twice)
            sb_audit_add(
                a, "round", step->number, r->sequence, -1, "round %" PRIu64 " %s", r->number,
                twice ? "is the second of this sequence in this step" : "has no rows in this step");
        a->counts.rounds++;
        a->counts.drafted += r->round.drafted;
        a->counts.accepted += r->round.accepted;
    }
}

sb_status sb_audit_step(void *audit, const sb_step *step, sb_error *err)
{
    sb_audit *a = audit;
    sb_status status = SB_OK;
    if (step->again) /* no call of the engine */
        return SB_OK;
    a->counts.steps++;
    for (size_t i = 0; i < step->row_count; i++)
        a->counts.rows[step->rows[i].kind]++;
    for (size_t i = 0; i < step->state_count && !status; i++)
        if (!sb_audit_course(a, step->states[i].sequence))
            status = sb_fail(err, SB_ERR_MEMORY, "out of memory for an audit");
    if (!status)
        status = sb_audit_prefixes(a, step, err);
    if (!status)
        sb_audit_samplings(a, step);
    if (!status)
        status = audit_drafts(a, step, err);
    if (status)
        return status;
    check_rounds(a, step);
    sb_audit_states(a, step);
    for (size_t i = 0; i < step->row_count && !status;) {
        size_t end = i + 1;
        while (end < step->row_count && step->rows[end].sequence == step->rows[i].sequence)
            end++;
        if (step->rows[i].kind != SB_CALL_draft)
            status = audit_block(a, &(sb_block){step, i, end}, err);
        i = end;
    }
    sb_audit_arrays(a, step);
    sb_level_add(&a->level, step);
    return status ? status : sb_history_step(a->history, step, err);
}

/* audit_rounds.c - checks a round against the tokens of its rows and of the next rows. */
#include <inttypes.h>

#include "tools/judge/trace/audit_inside.h"

static const sb_step_round *round_of(const sb_block *b)
{
    for (size_t i = 0; i < b->step->round_count; i++)
        if (b->step->rounds[i].sequence == b->step->rows[b->first].sequence)
            return &b->step->rounds[i];
    return NULL;
}

/* U-4: "Its rows are the token emitted last and all drafts" */
static void check_rows(sb_audit *a, const sb_block *b, const sb_step_round *r)
{
    const sb_step_row *rows = b->step->rows + b->first;
    uint64_t n = b->step->number;
    size_t count = b->end - b->first;
    long long at = (long long)b->first;
    if (r->position != rows[0].position)
        sb_audit_add(a, "round", n, r->sequence, at,
                     "round %" PRIu64 " is at position %" PRIu64 ", but its rows are at %" PRIu64,
                     r->number, r->position, rows[0].position);
    if (count != r->round.drafted + 1) {
        sb_audit_add(a, "round", n, r->sequence, at,
                     "round %" PRIu64 " has %zu drafts and %zu rows, expected one row more than "
                     "drafts",
                     r->number, r->round.drafted, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (rows[i].kind == SB_CALL_verify && rows[i].round != r->number)
            sb_audit_add(a, "round", n, r->sequence, at + (long long)i,
                         "belongs to round %" PRIu64 ", but its call to round %" PRIu64,
                         rows[i].round, r->number);
        if (i && rows[i].token != r->round.drafts[i - 1])
            sb_audit_add(a, "draft", n, r->sequence, at + (long long)i,
                         "verifies token %u, but draft %zu of round %" PRIu64 " is %u",
                         (unsigned)rows[i].token, i - 1, r->number,
                         (unsigned)r->round.drafts[i - 1]);
    }
}

static void check_emitted(sb_audit *a, const sb_block *b, const sb_step_round *r)
{
    for (size_t i = 0; i < r->round.accepted && i < r->round.emitted; i++)
        if (r->round.tokens[i] != r->round.drafts[i])
            sb_audit_add(a, "round", b->step->number, r->sequence, -1,
                         "round %" PRIu64
                         " accepted %zu drafts, but its emitted token %zu is %u, not draft %u",
                         r->number, r->round.accepted, i, (unsigned)r->round.tokens[i],
                         (unsigned)r->round.drafts[i]);
}

/* Checks the draft steps of the head against the verified drafts. */
static void check_drafted(sb_audit *a, const sb_course *c, const sb_block *b,
                          const sb_step_round *r)
{
    const sb_step_row *rows = b->step->rows + b->first;
    if (!c->drafted)
        return;
    if (c->draft_position != rows[0].position)
        sb_audit_add(a, "draft", b->step->number, r->sequence, (long long)b->first,
                     "verifies from position %" PRIu64 " on, but the drafts began at %" PRIu64,
                     rows[0].position, c->draft_position);
    for (size_t i = 0; i < c->drafted && i < r->round.drafted; i++)
        if (c->drafts[i] != rows[0].token && i == 0)
            sb_audit_add(a, "draft", b->step->number, r->sequence, (long long)b->first,
                         "verifies after token %u, but the head drafted after %u",
                         (unsigned)rows[0].token, (unsigned)c->drafts[0]);
        else if (i && c->drafts[i] != r->round.drafts[i - 1])
            sb_audit_add(a, "draft", b->step->number, r->sequence, (long long)b->first,
                         "draft %zu is %u, but the head continued from %u", i - 1,
                         (unsigned)r->round.drafts[i - 1], (unsigned)c->drafts[i]);
}

static void end_round(sb_course *c, const sb_step_round *r)
{
    c->next = r->position + r->round.emitted;
    c->open = 0;
    c->token = r->round.tokens[r->round.emitted - 1];
    c->has_token = c->has_round = 1;
    c->round = r->number;
    c->accepted = r->round.accepted;
    c->emitted = r->round.emitted;
    c->was_cut = r->round.emitted < r->round.accepted + 1;
}

void sb_audit_round(sb_audit *a, sb_course *c, const sb_block *b)
{
    const sb_step_row *first = &b->step->rows[b->first], *last = &b->step->rows[b->end - 1];
    const sb_step_round *r = first->kind == SB_CALL_prompt ? NULL : round_of(b);
    if (!r) {
        c->open = first->kind == SB_CALL_verify;
        c->least = first->position + 1;
        c->next = last->position + 1;
        c->has_token = c->has_round = c->was_cut = 0;
        return;
    }
    if (c->has_round && r->number != c->round + 1)
        sb_audit_add(a, "round", b->step->number, r->sequence, (long long)b->first,
                     "is round %" PRIu64 ", but the previous one was round %" PRIu64, r->number,
                     c->round);
    check_rows(a, b, r);
    check_emitted(a, b, r);
    check_drafted(a, c, b, r);
    end_round(c, r);
}

/* U-4: "A row of kind draft is one step of the MTP head or of the drafter" */
void sb_audit_draft(sb_audit *a, sb_course *c, const sb_step *step, size_t row)
{
    const sb_step_row *r = &step->rows[row];
    uint64_t expected = c->drafted ? c->draft_position + c->drafted : c->next;
    if (c->drafted >= SB_MAX_DRAFTS) {
        sb_audit_add(a, "draft", step->number, r->sequence, (long long)row,
                     "is draft %zu since the last call of its sequence, expected at most %d",
                     c->drafted, SB_MAX_DRAFTS);
        return;
    }
    if (!c->drafted)
        c->draft_position = r->position;
    if (c->seen && !(c->open && !c->drafted) && r->position != expected)
        sb_audit_add(a, "position", step->number, r->sequence, (long long)row,
                     "drafts at position %" PRIu64 ", expected %" PRIu64, r->position, expected);
    else if (c->seen && !c->drafted && c->has_token && r->token != c->token)
        sb_audit_add(a, "token", step->number, r->sequence, (long long)row,
                     "drafts after token %u, expected %u, which round %" PRIu64 " emitted last",
                     (unsigned)r->token, (unsigned)c->token, c->round);
    c->drafts[c->drafted++] = r->token;
}

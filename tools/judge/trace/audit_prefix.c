/* audit_prefix.c - sequences that continue another one: their parent, the position, and the tokens
 * before it (U-11); and declared samplers (U-12). */
#include <inttypes.h>

#include "tools/judge/trace/audit_inside.h"

static int is_used(const sb_step *step, uint32_t sequence)
{
    for (size_t i = 0; i < step->row_count; i++)
        if (step->rows[i].sequence == sequence)
            return 1;
    for (size_t i = 0; i < step->state_count; i++)
        if (step->states[i].sequence == sequence)
            return 1;
    return 0;
}

/* U-11: "in the step in which the sequence begins". True if it is so. */
static int check_child(sb_audit *a, const sb_step *step, size_t i)
{
    const sb_step_prefix *p = &step->prefixes[i];
    const sb_course *c = sb_audit_course(a, p->sequence);
    int twice = 0;
    for (size_t k = 0; k < i; k++)
        twice |= step->prefixes[k].sequence == p->sequence;
    if (twice)
        sb_audit_add(a, "prefix", step->number, p->sequence, -1,
                     "is listed twice in the prefixes of this step");
    else if (c->seen || c->continues)
        sb_audit_add(a, "prefix", step->number, p->sequence, -1,
                     "continues sequence %u here, but it has begun in an earlier step",
                     (unsigned)p->parent);
    else if (!is_used(step, p->sequence))
        sb_audit_add(a, "prefix", step->number, p->sequence, -1,
                     "continues sequence %u, but it has neither rows nor a state in this step",
                     (unsigned)p->parent);
    else
        return 1;
    return 0;
}

/* U-11: "Its parent is another sequence, which has been fed at least that many tokens before" */
static int check_parent(sb_audit *a, const sb_step *step, const sb_step_prefix *p)
{
    uint64_t fed = sb_history_end(a->history, p->parent);
    if (p->parent == p->sequence)
        sb_audit_add(a, "prefix", step->number, p->sequence, -1, "continues itself");
    else if (!fed)
        sb_audit_add(a, "prefix", step->number, p->sequence, -1,
                     "continues sequence %u, which no earlier step feeds", (unsigned)p->parent);
    else if (p->position > fed)
        sb_audit_add(a, "prefix", step->number, p->sequence, -1,
                     "continues sequence %u at position %" PRIu64
                     ", but that sequence was fed %" PRIu64 " tokens",
                     (unsigned)p->parent, p->position, fed);
    else
        return 1;
    return 0;
}

/* U-11: "at multiples of `prefix_block`", "where a call ended" */
static void check_position(sb_audit *a, const sb_step *step, const sb_step_prefix *p)
{
    if (a->block && p->position % a->block)
        sb_audit_add(a, "prefix", step->number, p->sequence, -1,
                     "continues sequence %u at position %" PRIu64
                     ", expected a multiple of prefix_block %u",
                     (unsigned)p->parent, p->position, (unsigned)a->block);
    if (a->prefix == SB_TRACE_PREFIX_checkpoint &&
        !sb_history_ended_at(a->history, p->parent, p->position))
        sb_audit_add(a, "prefix", step->number, p->sequence, -1,
                     "continues sequence %u at position %" PRIu64
                     ", where no call of that sequence ended: \"checkpoint\" keeps no other states",
                     (unsigned)p->parent, p->position);
}

/* U-11: "they must be those of the parent" */
static void check_tokens(sb_audit *a, const sb_step *step, const sb_step_prefix *p)
{
    uint32_t fed = 0;
    for (uint64_t i = 0; p->tokens && i < p->position; i++) {
        if (!sb_history_token(a->history, p->parent, i, &fed) || fed == p->tokens[i])
            continue;
        sb_audit_add(a, "prefix", step->number, p->sequence, -1,
                     "has token %u at position %" PRIu64 ", but sequence %u, which it continues, "
                     "was fed %u",
                     (unsigned)p->tokens[i], i, (unsigned)p->parent, (unsigned)fed);
        return;
    }
}

sb_status sb_audit_prefixes(sb_audit *a, const sb_step *step, sb_error *err)
{
    for (size_t i = 0; i < step->prefix_count; i++) {
        const sb_step_prefix *p = &step->prefixes[i];
        if (!sb_audit_course(a, p->sequence))
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for an audit");
        a->counts.prefixes++;
        int good = check_child(a, step, i);
        good = check_parent(a, step, p) && good;
        if (!good)
            continue;
        check_position(a, step, p);
        check_tokens(a, step, p);
        sb_course *c = sb_audit_course(a, p->sequence);
        c->continues = 1;
        c->next = p->position;
    }
    return SB_OK;
}

void sb_audit_begin(sb_audit *a, const sb_course *c, const sb_block *b)
{
    const sb_step_row *row = &b->step->rows[b->first];
    if (c->continues && row->position != c->next)
        sb_audit_add(a, "position", b->step->number, row->sequence, (long long)b->first,
                     "begins at position %" PRIu64 ", but continues its parent at %" PRIu64,
                     row->position, c->next);
    if (c->continues || !row->position)
        return;
    if (!a->counts.orphans++) {
        a->counts.first_orphan = row->sequence;
        a->counts.first_orphan_position = row->position;
    }
}

/* U-12: "in a step that has rows of the sequence" */
void sb_audit_samplings(sb_audit *a, const sb_step *step)
{
    for (size_t i = 0; i < step->sampling_count; i++) {
        const uint32_t sequence = step->samplings[i].sequence;
        int twice = 0;
        if (!a->counts.samplings++)
            a->counts.first_sampling = step->samplings[i];
        for (size_t k = 0; k < i; k++)
            twice |= step->samplings[k].sequence == sequence;
        if (twice)
            sb_audit_add(a, "sampling", step->number, sequence, -1,
                         "is listed twice in the samplers of this step");
        else if (!is_used(step, sequence))
            sb_audit_add(a, "sampling", step->number, sequence, -1,
                         "declares its sampler, but has neither rows nor a state in this step");
    }
}

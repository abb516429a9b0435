#include "tools/report/diff/diff.h"

const char *sb_diff_meaning(sb_verdict verdict)
{
    switch (verdict) {
    case SB_VERDICT_IDENTICAL:
        return "every compared value has the same bits as the reference";
    case SB_VERDICT_WITHIN:
        return "some values differ, but by no more than a correct implementation in this "
               "arithmetic may";
    case SB_VERDICT_NEAR_TIE:
        return "some choices differ, and each of them is so close that rounding may decide it";
    case SB_VERDICT_INHERITED:
        return "the engine used the reference for its work: none of its own values was compared";
    case SB_VERDICT_SKIPPED:
        return "the requested values could not be compared, so nothing is known about them";
    case SB_VERDICT_MISTRUSTED:
        return "this comparison could not have shown a fault, so it proves nothing";
    case SB_VERDICT_FAIL:
        return "no correct implementation in this arithmetic gives these values";
    case SB_VERDICT_none:
        break;
    }
    return "nothing was compared";
}

sb_diff_layer sb_diff_layer_text(const sb_diff_report *r, uint32_t layer)
{
    sb_diff_layer out = {""};
    if (layer == r->layers)
        snprintf(out.text, sizeof out.text, "mtp.0");
    else if (layer == r->layers + 1)
        snprintf(out.text, sizeof out.text, "drafter.0");
    else if (layer != SB_NO_LAYER)
        snprintf(out.text, sizeof out.text, "layer %u", (unsigned)layer);
    return out;
}

size_t sb_diff_tokens(const sb_verdicts *v, sb_verdict verdict)
{
    size_t n = 0;
    for (size_t i = 0; i < v->token_count; i++)
        n += v->tokens[i].verdict == verdict ||
             (verdict == SB_VERDICT_SKIPPED && v->tokens[i].verdict == SB_VERDICT_none);
    return n;
}

size_t sb_diff_compared(const sb_verdicts *v)
{
    size_t n = 0;
    for (size_t i = 0; i < v->token_count; i++)
        n += v->tokens[i].verdict != SB_VERDICT_none;
    return n;
}

sb_diff_sums sb_diff_add(const sb_verdicts *v)
{
    sb_diff_sums sums = {.kl = 0};
    for (size_t i = 0; i < v->token_count; i++) {
        const sb_token_verdict *t = &v->tokens[i];
        sums.with_kl += t->has_kl != 0;
        sums.lower_kl += t->has_kl && t->kl_is_lower;
        sums.kl += t->has_kl ? t->kl : 0;
        sums.worst = t->worst_ratio > sums.worst ? t->worst_ratio : sums.worst;
    }
    for (size_t i = 0; i < v->round_count; i++)
        for (int side = 0; side < 2; side++) {
            sums.drafted[side] += v->rounds[i].drafted[side];
            sums.accepted[side] += v->rounds[i].accepted[side];
        }
    return sums;
}

size_t sb_diff_depths(const sb_verdicts *v)
{
    size_t most = 0;
    for (size_t i = 0; i < v->round_count; i++)
        for (int side = 0; side < 2; side++)
            most = v->rounds[i].drafted[side] > most ? v->rounds[i].drafted[side] : most;
    return most;
}

sb_diff_sums sb_diff_depth(const sb_verdicts *v, size_t place)
{
    sb_diff_sums sums = {.kl = 0};
    for (size_t i = 0; i < v->round_count; i++)
        for (int side = 0; side < 2; side++) {
            sums.drafted[side] += v->rounds[i].drafted[side] > place;
            sums.accepted[side] += v->rounds[i].accepted[side] > place;
        }
    return sums;
}

const sb_round_verdict *sb_diff_round_of(const sb_verdicts *v, const sb_token_verdict *t,
                                         sb_diff_cursor *c)
{
    if (c->inside) {
        c->inside--;
        return NULL;
    }
    if (c->next == v->round_count || v->rounds[c->next].sequence != t->sequence ||
        v->rounds[c->next].position != t->position)
        return NULL;
    c->inside = v->rounds[c->next].drafted[1];
    return &v->rounds[c->next++];
}

sb_verdict sb_diff_state(const sb_verdicts *v, sb_state_part part, const sb_round_verdict **at)
{
    sb_verdict worst = SB_VERDICT_none;
    *at = NULL;
    for (size_t i = 0; i < v->round_count; i++)
        if (v->rounds[i].state[part].verdict > worst) {
            worst = v->rounds[i].state[part].verdict;
            *at = &v->rounds[i];
        }
    return worst;
}

int sb_diff_fine(sb_verdict verdict)
{
    return verdict <= SB_VERDICT_WITHIN;
}

int sb_diff_met(const sb_op_verdict *op)
{
    return op->compared || op->values.not_judged || op->verdict != SB_VERDICT_none;
}

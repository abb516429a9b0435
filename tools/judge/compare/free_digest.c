/* free_digest.c - digests of states whose arrays are not recorded. Equal digests mean equal bits.
 * Different digests mean only that some bit differs, which is a fault only in an engine that claims
 * to have every bit of the reference. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ref/ops/knob.h"
#include "ref/state/piece.h"
#include "tools/judge/compare/free_parts.h"
#include "tools/judge/compare/state_place.h"

static void see(sb_free *f, const sb_free_sequence *s, int same, const char *name, uint32_t layer)
{
    int is_piece = strchr(name, '.') != NULL;
    sb_free_digests *d = &f->digests[layer != SB_NO_LAYER && layer >= f->model->config.layers];
    /* not for an empty state: every empty state is zero */
    d->same += same && s->position + s->rows;
    if (same || d->apart++)
        return;
    d->round = s->has_round ? s->round : SIZE_MAX;
    d->first = (sb_place){.sequence = s->number,
                          .token = sb_state_token(s->position + s->rows),
                          .layer = layer,
                          .op = "state",
                          .found = (double)NAN,
                          .expected = (double)NAN,
                          .bound = (double)NAN};
    snprintf(d->first.name, sizeof d->first.name, "%s", name);
    snprintf(d->first.words, sizeof d->first.words,
             "the digest %s%s%s differs and its data are not recorded; %s", is_piece ? "of " : "",
             name, is_piece ? "" : " of the whole state",
             f->options.same_arithmetic
                 ? "the trace says that its arithmetic is exact"
                 : "all other values have the reference's bits: the state is wrong, or the "
                   "arithmetic is another (then the trace must name it in \"arithmetic\")");
}

void sb_free_digest_of_piece(sb_free *f, const sb_free_sequence *s, const sb_piece *p,
                             const sb_digest *theirs, sb_state_verdict *out)
{
    sb_digest ours = sb_digest_f32(p->data, (size_t)sb_piece_elements(p));
    int same = strcmp(ours.hex, theirs->hex) == 0;
    out->verdict = sb_verdict_worse(out->verdict, same ? SB_VERDICT_IDENTICAL : SB_VERDICT_SKIPPED);
    see(f, s, same, p->name, p->layer);
}

sb_status sb_free_digest_of_whole(sb_free *f, const sb_free_sequence *s,
                                  const sb_step_state *recorded, sb_error *err)
{
    const sb_state *ours = sb_session_state(sb_envelope_session(s->envelope, 0));
    sb_digest digest;
    sb_status status = SB_OK;
    if (recorded->has_target)
        status = sb_state_digest(ours, &digest, err);
    if (!status && recorded->has_target)
        see(f, s, strcmp(digest.hex, recorded->target.hex) == 0, "target", SB_NO_LAYER);
    if (status || !recorded->has_mtp || !ours->has_mtp)
        return status;
    status = sb_state_mtp_digest(ours, &digest, err);
    if (!status)
        see(f, s, strcmp(digest.hex, recorded->mtp.hex) == 0, "mtp", f->model->config.layers);
    return status;
}

void sb_free_see_row(sb_free *f, int is_head, const sb_near_difference *d)
{
    f->digests[is_head].rows += d->identical && !d->constant;
    f->other_bits += !d->identical;
}

/* True for the knobs of profile exact: every value is binary32, and no narrower type makes
 * different values equal. */
static int nothing_is_narrow(const sb_free *f)
{
    sb_knobs exact;
    sb_knobs_exact(&exact);
    return sb_knobs_first_other(&exact, &f->knobs) == SB_KNOB_COUNT;
}

static int has_other_bits(const sb_free *f)
{
    size_t other = f->other_bits;
    for (size_t i = 0; i < SB_OP_COUNT; i++)
        other += f->v->ops[i].compared - f->v->ops[i].identical;
    return other != 0;
}

/* T-89: "and some other recorded value has the reference's bits", which supports the claim of the
 * trace */
static int is_failure(const sb_free *f, const sb_free_digests *d)
{
    const sb_free_digests *all = f->digests;
    return d->apart && f->options.same_arithmetic &&
           all[0].same + all[0].rows + all[1].same + all[1].rows > 0;
}

/* T-89: "every other compared value has the reference's bits". Without data of the head its state
 * is not doubted. */
static int is_doubt(const sb_free *f, const sb_free_digests *d)
{
    return d->apart && !has_other_bits(f) && nothing_is_narrow(f) && d->rows > 0;
}

/* Fails the differing digests. The parts of states with such a digest were SKIPPED before. */
static void fail_digests(sb_free *f, size_t is_head)
{
    const sb_free_digests *d = &f->digests[is_head];
    sb_verdicts *v = f->v;
    for (size_t i = 0; i < v->round_count; i++)
        for (size_t part = 0; part < SB_STATE_PARTS; part++) {
            sb_state_verdict *state = &v->rounds[i].state[part];
            if ((part == SB_STATE_mtp) == is_head && state->verdict == SB_VERDICT_SKIPPED)
                v->rounds[i].verdict = state->verdict = SB_VERDICT_FAIL;
        }
    for (size_t i = 0; i < v->hit_count; i++)
        for (size_t part = 0; part < SB_STATE_PARTS; part++) {
            sb_state_verdict *state = &v->hits[i].state[part];
            if ((part == SB_STATE_mtp) == is_head && state->verdict == SB_VERDICT_SKIPPED)
                v->hits[i].verdict = state->verdict = SB_VERDICT_FAIL;
        }
    if (d->round != SIZE_MAX)
        v->rounds[d->round].verdict = SB_VERDICT_FAIL;
    sb_verdicts_fail(v, &d->first);
    v->verdict = SB_VERDICT_FAIL;
}

void sb_free_judge_digests(sb_free *f)
{
    for (size_t is_head = 0; is_head < 2; is_head++)
        if (is_failure(f, &f->digests[is_head])) {
            fail_digests(f, is_head);
        } else {
            f->v->digests += f->digests[is_head].apart;
            if (is_doubt(f, &f->digests[is_head]) && !f->doubt[0])
                snprintf(f->doubt, sizeof f->doubt, "%s", f->digests[is_head].first.words);
        }
}

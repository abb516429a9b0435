#include "tools/judge/fault/sign.h"

#include <stdio.h>
#include <string.h>

void sb_sign_add(sb_signs *signs, const char *name)
{
    if (signs->count < SB_SIGNS && !sb_sign_has(signs, name))
        snprintf(signs->name[signs->count++], sizeof *signs->name, "%s", name);
}

int sb_sign_has(const sb_signs *signs, const char *name)
{
    for (size_t i = 0; i < signs->count; i++)
        if (strcmp(signs->name[i], name) == 0)
            return 1;
    return 0;
}

static void add_ops(const sb_verdicts *v, int alone, sb_signs *signs)
{
    static const char *const names[] = {
#define SB_OP(name, clause) "op:" #name,
#include "ref/ops/ops.def"
#undef SB_OP
    };
    /* a forced op whose output could not be read has no verdict, but is the first failure */
    const char *first = alone && v->has_failure ? v->first_failure.op : "";
    for (size_t i = 0; i < SB_OP_COUNT; i++)
        if (v->ops[i].verdict == SB_VERDICT_FAIL || strcmp(names[i] + 3, first) == 0)
            sb_sign_add(signs, names[i]);
}

static void add_tap(const sb_verdicts *v, sb_signs *signs)
{
    char name[sizeof signs->name[0]];
    if (!v->has_failure || strncmp(v->first_failure.name, "drafter.", 8) != 0)
        return;
    snprintf(name, sizeof name, "tap:%.35s", v->first_failure.name);
    sb_sign_add(signs, name);
}

static const char *part_of(const char *piece)
{
    if (strstr(piece, "mtp"))
        return "mtp";
    if (strstr(piece, "recurrent"))
        return "recurrent";
    return strstr(piece, "conv") ? "conv" : "kv";
}

static int drafts_differ(const sb_round_verdict *r)
{
    return r->verdict == SB_VERDICT_FAIL && r->has_reference &&
           memcmp(r->drafts[0], r->drafts[1], r->drafted[1] * sizeof *r->drafts[1]) != 0;
}

/* Adds the wrong parts of the state after the first round with any. Those of later rounds are
 * consequences. If a state was wrong before that round, all are consequences, and none is added. */
static void add_states(const sb_verdicts *v, sb_signs *signs)
{
    int found = 0;
    for (size_t i = 0; i < v->hit_count; i++)
        for (int part = 0; part < SB_STATE_PARTS; part++)
            if (v->hits[i].state[part].verdict == SB_VERDICT_FAIL) {
                sb_sign_add(signs, sb_state_part_name((sb_state_part)part));
                found = 1;
            }
    for (size_t i = 0; i < v->round_count && !found; i++) {
        const sb_round_verdict *r = &v->rounds[i];
        if (v->has_failure && strcmp(v->first_failure.op, "state") == 0 &&
            v->first_failure.token < r->position)
            return;
        for (int part = 0; part < SB_STATE_PARTS; part++)
            if (r->state[part].verdict == SB_VERDICT_FAIL) {
                sb_sign_add(signs, sb_state_part_name((sb_state_part)part));
                found = 1;
            }
    }
}

static void add_free(const sb_verdicts *v, sb_signs *signs)
{
    const sb_place *first = &v->first_failure;
    if (v->has_failure && strcmp(first->op, "state") == 0)
        sb_sign_add(signs, part_of(first->name));
    else if (v->has_failure && strcmp(first->op, "draft") == 0)
        sb_sign_add(signs, "drafts");
    else if (v->has_failure)
        sb_sign_add(signs, first->op);
    add_states(v, signs);
    for (size_t i = 0; i < v->round_count; i++)
        if (drafts_differ(&v->rounds[i]))
            sb_sign_add(signs, "drafts");
    for (size_t i = 0; i < v->token_count; i++)
        if (v->tokens[i].verdict == SB_VERDICT_FAIL)
            sb_sign_add(signs, "logits");
}

/* Reads the message of an engine that stopped in an op: "op linear (...) failed: kernel ...". */
static void add_stop(const char *words, sb_signs *signs)
{
    char op[24], sign[32];
    if (sscanf(words, "op %23[a-z0-9_] (", op) != 1 || !strstr(words, ") failed: "))
        return;
    snprintf(sign, sizeof sign, "stop:%s", op);
    sb_sign_add(signs, sign);
}

static void add_verdict(const sb_verdicts *v, sb_signs *signs)
{
    if (v->verdict == SB_VERDICT_MISTRUSTED)
        sb_sign_add(signs, "mistrusted");
    if (v->verdict == SB_VERDICT_SKIPPED || v->skipped_taps)
        sb_sign_add(signs, "skipped");
    if (v->verdict == SB_VERDICT_FAIL)
        sb_sign_add(signs, "fail");
    if (v->near_ties)
        sb_sign_add(signs, "near_tie");
    for (size_t i = 0; i < SB_OP_COUNT; i++)
        if (v->ops[i].bias.direction != SB_BIAS_none)
            sb_sign_add(signs, v->ops[i].bias.direction == SB_BIAS_toward ? "cut" : "bias");
}

void sb_signs_of(const sb_outcome *outcome, sb_signs *signs)
{
    add_ops(&outcome->forced, 1, signs);
    add_ops(&outcome->free, 0, signs);
    add_tap(&outcome->forced, signs);
    add_free(&outcome->free, signs);
    add_verdict(&outcome->forced, signs);
    add_verdict(&outcome->free, signs);
    if (outcome->refused) {
        sb_sign_add(signs, "refused");
        add_stop(outcome->words, signs);
    }
}

/* The next word of a list; its length is 0 at the end. */
static size_t word(const char **at, const char *separators)
{
    *at += strspn(*at, separators);
    return strcspn(*at, separators);
}

static int has_word(const sb_signs *signs, const char *at, size_t n)
{
    char name[40];
    snprintf(name, sizeof name, "%.*s", (int)n, at);
    return sb_sign_has(signs, name);
}

static int one_of(const sb_signs *signs, const char *at, size_t n)
{
    const char *end = at + n;
    for (size_t m; at < end; at += m + 1) {
        m = strcspn(at, "| ");
        if (has_word(signs, at, m))
            return 1;
    }
    return 0;
}

int sb_signs_all(const sb_signs *signs, const char *wanted)
{
    for (size_t n; (n = word(&wanted, " ")) > 0; wanted += n)
        if (!one_of(signs, wanted, n))
            return 0;
    return 1;
}

/* True if the list has the word. */
static int lists(const char *list, const char *name)
{
    for (size_t n; (n = word(&list, " |")) > 0; list += n)
        if (strlen(name) == n && memcmp(list, name, n) == 0)
            return 1;
    return 0;
}

const char *sb_signs_loud(const sb_signs *signs, const char *quiet, const char *fires)
{
    for (size_t i = 0; i < signs->count; i++) {
        const char *name = signs->name[i];
        if (lists(quiet, name) && !lists(fires, name))
            return name;
        if (lists(quiet, "ops") && strncmp(name, "op:", 3) == 0 && !lists(fires, name))
            return name;
    }
    return NULL;
}

/* fp4_ask.c - rules that a producer may or may not follow, tested on all matrices of a kind. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/check/scan/fp4.h"
#include "tools/check/scan/producer.h"
#include "tools/check/scan/recipe.h"

enum { KINDS = 96 };

/* How many matrices of a kind a rule applies to, and how many break it. */
typedef struct kind {
    const char *name;
    uint32_t asked, broken;
    uint32_t full, less; /* matrices with a largest block scale of 448; matrices with 256 to 384 */
    int told;
} kind;

typedef struct asked {
    sb_check *check;
    const sb_rule *rule;
    int tuned; /* the producer declares codes and scales that do not follow amax */
    kind kinds[KINDS];
    size_t count;
} asked;

static kind *kind_of(asked *a, const char *name)
{
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->kinds[i].name, name) == 0)
            return &a->kinds[i];
    if (a->count < KINDS)
        a->kinds[a->count++].name = name;
    return &a->kinds[a->count - 1];
}

/* V-18: "whether a kind maps the largest weight of a block to 6, or to 4 or 6" */
static void find_sixes(asked *a)
{
    const sb_units *u = &a->check->self.units;
    for (size_t i = 0; i < u->member_count; i++) {
        const sb_member *m = &u->members[i];
        if (!sb_member_fp4(m))
            continue;
        const sb_seen_fp4 *s = &m->seen->fp4;
        kind *k = kind_of(a, m->unit->kind);
        /* under a shared global scale, the matrix's own largest scale may be smaller */
        unsigned largest = sb_fp4_group_largest(u, m);
        k->full += largest > 0x7c;
        k->less += largest >= 0x78 && largest <= 0x7c && s->not_six.count > 0;
    }
}

static sb_answer ask(const asked *a, const sb_member *m, const kind *k)
{
    return a->rule->ask(a->check, m, k->full >= k->less);
}

/* How many break the rule: of the kind, or, if the kind is rare, of all. */
static void tally(const asked *a, const kind *k, uint32_t *count, uint32_t *broken)
{
    *count = k->asked;
    *broken = k->broken;
    if (*count >= 20)
        return;
    *count = *broken = 0;
    for (size_t i = 0; i < a->count; i++) {
        *count += a->kinds[i].asked;
        *broken += a->kinds[i].broken;
    }
}

/* V-19: "If few matrices break it, these are damaged" */
static int is_lone(uint32_t count, uint32_t broken)
{
    return count >= 3 && broken <= (count < 20 ? 1 : count / 10);
}

/* Reports a matrix that breaks a rule; if many matrices of its kind do, only one line for the
 * kind. */
static void tell(asked *a, const sb_member *m, kind *k)
{
    const sb_rule *r = a->rule;
    uint32_t count, broken;
    char text[512];
    tally(a, k, &count, &broken);
    r->tell(a->check, m, text, sizeof text);
    if (is_lone(count, broken)) {
        int piece = m->unit->found.experts != 0;
        /* V-19: "a WARN if the producer declares tuned codes" */
        sb_level lone = a->tuned && r->number != 17 && r->number <= 25 ? SB_LEVEL_warn : r->lone;
        sb_check_find(a->check, r->number, lone < r->lone ? lone : r->lone, r->tensor(m), "%s%s%s",
                      piece ? SB_SHOW(m->name) : "", piece ? ": " : "", text);
        return;
    }
    if (!r->usual || k->told++)
        return;
    sb_level level = r->lone > SB_LEVEL_info && 2 * broken <= count ? SB_LEVEL_warn : SB_LEVEL_info;
    sb_check_find(a->check, r->number, level, r->tensor(m),
                  "%" PRIu32 " of %" PRIu32 " matrices of this kind: %s; another explanation: %s",
                  k->broken, k->asked, text, r->usual);
}

static void ask_all(asked *a)
{
    const sb_units *u = &a->check->self.units;
    for (size_t i = 0; i < a->count; i++) {
        a->kinds[i].asked = a->kinds[i].broken = 0;
        a->kinds[i].told = 0;
    }
    for (size_t i = 0; i < u->member_count; i++) {
        const sb_member *m = &u->members[i];
        if (!a->rule->applies(m))
            continue;
        kind *k = kind_of(a, m->unit->kind);
        sb_answer x = ask(a, m, k);
        k->asked += x != SB_NOT_ASKED;
        k->broken += x == SB_BROKEN;
    }
    for (size_t i = 0; i < u->member_count; i++) {
        const sb_member *m = &u->members[i];
        kind *k = a->rule->applies(m) ? kind_of(a, m->unit->kind) : NULL;
        if (k && k->broken && ask(a, m, k) == SB_BROKEN)
            tell(a, m, k);
    }
}

void sb_ask(sb_check *check, const sb_rule *rules, size_t count)
{
    asked a = {.check = check};
    a.tuned =
        (sb_recipe_of(check) & SB_RECIPE_tuned) || sb_producer_of(check) == SB_PRODUCER_auto_round;
    find_sixes(&a);
    for (size_t i = 0; i < count; i++) {
        a.rule = &rules[i];
        ask_all(&a);
    }
}

/* declared_rules.c - lists of rules about module names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/model/declared_parts.h"

/* Limits the number of patterns, because every pattern is tried on every module. Published lists
 * have hundreds of names, but only a few patterns. */
enum { MAX_PATTERNS = 4096 };

/* Returns the place of a rule in words, for messages. */
static char *place_text(const sb_rule_place *place, const char *shown)
{
    char text[640];
    char index[32] = "";
    if (place->index != SIZE_MAX)
        snprintf(index, sizeof index, "[%zu]", place->index);
    snprintf(text, sizeof text, "%s%s \"%s\"", place->key, index, SB_SHOW(shown));
    return sb_strdup(text);
}

static sb_status compile(sb_rule *rule, const sb_rule_place *place, sb_error *err)
{
    if (rule->kind == SB_RULE_GLOB && strchr(rule->text, '['))
        return sb_fail(err, SB_ERR_UNSUPPORTED, "%s: %s: has a set in brackets, which is not read",
                       SB_SHOW(place->file), rule->where);
    if (rule->kind != SB_RULE_MATCH && rule->kind != SB_RULE_SEARCH)
        return SB_OK;
    sb_status status =
        sb_regex_compile(rule->text, rule->kind == SB_RULE_MATCH, rule->where, &rule->regex, err);
    return status == SB_OK ? SB_OK : sb_fail_in(err, status, SB_SHOW(place->file));
}

sb_status sb_rules_add(sb_rules *rules, sb_rule_kind kind, const char *text, const char *shown,
                       int32_t scheme, const sb_rule_place *place, sb_error *err)
{
    if (kind != SB_RULE_EXACT && rules->count - rules->exact >= MAX_PATTERNS)
        return sb_fail(err, SB_ERR_INPUT, "%s: %s has more than %d patterns", SB_SHOW(place->file),
                       place->key, MAX_PATTERNS);
    sb_rule *grown = rules->rule;
    if ((rules->count & (rules->count - 1)) == 0) /* the capacity is the next power of two */
        grown = sb_realloc(rules->rule, rules->count ? 2 * rules->count : 1, sizeof *grown);
    if (!grown)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for %s", SB_SHOW(place->file),
                       place->key);
    rules->rule = grown;
    sb_rule *rule = &grown[rules->count];
    *rule = (sb_rule){.kind = kind, .scheme = scheme, .order = (uint32_t)rules->count};
    rules->count++;
    rules->exact += kind == SB_RULE_EXACT;
    rule->text = sb_strdup(text);
    rule->where = place_text(place, shown);
    if (!rule->text || !rule->where)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for %s", SB_SHOW(place->file),
                       place->key);
    return compile(rule, place, err);
}

static int by_text(const void *left, const void *right)
{
    const sb_rule *a = left;
    const sb_rule *b = right;
    int pattern_a = a->kind != SB_RULE_EXACT;
    int pattern_b = b->kind != SB_RULE_EXACT;
    int order = pattern_a || pattern_b ? pattern_a - pattern_b : strcmp(a->text, b->text);
    return order != 0 ? order : (a->order > b->order) - (a->order < b->order);
}

void sb_rules_close(sb_rules *rules)
{
    if (rules->count > 0)
        qsort(rules->rule, rules->count, sizeof *rules->rule, by_text);
}

void sb_rules_free(sb_rules *rules)
{
    for (size_t i = 0; i < rules->count; i++) {
        sb_regex_free(rules->rule[i].regex);
        free(rules->rule[i].text);
        free(rules->rule[i].where);
    }
    free(rules->rule);
    *rules = (sb_rules){0};
}

const sb_rule *sb_rules_exact(const sb_rules *rules, const char *name)
{
    size_t from = 0;
    size_t to = rules->exact;
    while (from < to) { /* finds the first rule above name */
        size_t middle = from + (to - from) / 2;
        if (strcmp(rules->rule[middle].text, name) <= 0)
            from = middle + 1;
        else
            to = middle;
    }
    const sb_rule *rule = from > 0 ? &rules->rule[from - 1] : NULL;
    return rule && strcmp(rule->text, name) == 0 ? rule : NULL;
}

static sb_status matches(const sb_declared *declared, const sb_rule *rule, const char *name,
                         int *out, sb_error *err)
{
    sb_status status;
    *out = 0;
    switch (rule->kind) {
    case SB_RULE_EXACT:
        break;
    case SB_RULE_MATCH:
    case SB_RULE_SEARCH:
        status = sb_regex_matches(rule->regex, name, rule->where, out, err);
        return status == SB_OK ? SB_OK : sb_fail_in(err, status, SB_SHOW(declared->file));
    case SB_RULE_GLOB:
        *out = sb_glob_matches(rule->text, name);
        break;
    case SB_RULE_PART:
        *out = sb_has_prefix_part(name, rule->text) || sb_has_suffix_part(name, rule->text);
        break;
    case SB_RULE_PREFIX:
        *out = sb_has_prefix_part(name, rule->text);
        break;
    case SB_RULE_SUBSTRING:
        *out = strstr(name, rule->text) != NULL;
        break;
    }
    return SB_OK;
}

sb_status sb_rules_next(const sb_declared *declared, const sb_rules *rules, const char *name,
                        size_t *next, const sb_rule **out, sb_error *err)
{
    *out = NULL;
    size_t i = *next > rules->exact ? *next : rules->exact;
    for (; i < rules->count && !*out; i++) {
        int yes;
        sb_status status = matches(declared, &rules->rule[i], name, &yes, err);
        if (status != SB_OK)
            return status;
        if (yes)
            *out = &rules->rule[i];
    }
    *next = i;
    return SB_OK;
}

sb_status sb_rules_find(const sb_declared *declared, const sb_rules *rules, const char *name,
                        const sb_rule **out, sb_error *err)
{
    size_t next = 0;
    *out = sb_rules_exact(rules, name);
    return *out ? SB_OK : sb_rules_next(declared, rules, name, &next, out, err);
}

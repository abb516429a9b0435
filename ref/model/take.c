#include "ref/model/take.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/model/declared_pattern.h"
#include "ref/model/layers.h"
#include "ref/model/take_parts.h"

/* The way in which each side stores the experts of one layer. */
typedef struct block {
    char *name;
    int style[2];
} block;

typedef struct plan {
    const sb_checkpoint *side[2];
    const char *const *patterns;
    size_t pattern_count;
    unsigned char used[64]; /* 1: the pattern has matched a name */
    sb_take_entry *entries;
    size_t count;
    block *blocks; /* sorted by name */
    size_t block_count;
    sb_take *out;
} plan;

static int block_order(const void *left, const void *right)
{
    return strcmp(((const block *)left)->name, ((const block *)right)->name);
}

static sb_status no_memory(sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for names of tensors");
}

/* Notes the storage style of a block. Each side lists the tensors of a block one after the
 * other. */
static sb_status note_block(plan *p, int side, const char *plain, sb_error *err)
{
    char name[SB_MAX_TENSOR_NAME];
    int style = 0;
    size_t n = sb_take_experts(plain, &style);
    if (n == 0)
        return SB_OK;
    snprintf(name, sizeof name, "%.*s", (int)n, plain);
    block *last = p->block_count ? &p->blocks[p->block_count - 1] : NULL;
    if (!last || !last->style[side] || strcmp(last->name, name) != 0) {
        block *grown = sb_realloc(p->blocks, p->block_count + 1, sizeof *grown);
        if (!grown)
            return no_memory(err);
        p->blocks = grown;
        last = &grown[p->block_count];
        *last = (block){sb_strdup(name), {0, 0}};
        if (!last->name)
            return no_memory(err);
        p->block_count++;
    }
    last->style[side] |= style;
    return SB_OK;
}

/* Merges the notes of both sides for the same block. */
static void join_blocks(plan *p)
{
    size_t kept = 0;
    if (p->block_count)
        qsort(p->blocks, p->block_count, sizeof *p->blocks, block_order);
    for (size_t i = 0; i < p->block_count; i++) {
        block *last = kept ? &p->blocks[kept - 1] : NULL;
        if (last && strcmp(last->name, p->blocks[i].name) == 0) {
            last->style[0] |= p->blocks[i].style[0];
            last->style[1] |= p->blocks[i].style[1];
            free(p->blocks[i].name);
        } else {
            p->blocks[kept++] = p->blocks[i];
        }
    }
    p->block_count = kept;
}

static sb_status note_blocks(plan *p, sb_error *err)
{
    sb_status status = SB_OK;
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < sb_checkpoint_count(p->side[side]) && !status; i++)
            status =
                note_block(p, side, sb_plain_name(sb_checkpoint_at(p->side[side], i)->name), err);
    join_blocks(p);
    return status;
}

/* W-1: "Where one side stacks the experts of a layer and the other does not, all experts of that
 * layer are one module" */
static int is_whole_block(const plan *p, const char *name)
{
    const block key = {(char *)(size_t)name, {0, 0}};
    const block *b = p->block_count
                         ? bsearch(&key, p->blocks, p->block_count, sizeof *p->blocks, block_order)
                         : NULL;
    return b && b->style[0] && b->style[1] &&
           (b->style[0] | b->style[1]) == (SB_EXPERTS_STACKED | SB_EXPERTS_SPLIT);
}

static int matches(plan *p, const char *name, const char *module)
{
    int yes = 0;
    for (size_t i = 0; i < p->pattern_count; i++) {
        const char *glob = p->patterns[i];
        int this = sb_glob_matches(glob, name) || sb_glob_matches(glob, sb_plain_name(name)) ||
                   sb_glob_matches(glob, module);
        p->used[i] |= (unsigned char)this;
        yes |= this;
    }
    return yes;
}

static sb_status add_entry(plan *p, int side, uint32_t tensor, sb_error *err)
{
    const char *name = sb_checkpoint_at(p->side[side], tensor)->name, *plain = sb_plain_name(name);
    char module[SB_MAX_TENSOR_NAME + 1], whole[SB_MAX_TENSOR_NAME + 1];
    int style = 0;
    size_t n = sb_take_experts(plain, &style);
    sb_take_module(plain, module, sizeof module);
    int matched = matches(p, name, module);
    snprintf(whole, sizeof whole, "%.*s", (int)n, plain);
    sb_take_entry *e = &p->entries[p->count++];
    *e = (sb_take_entry){sb_strdup(n > 0 && is_whole_block(p, whole) ? whole : module), tensor,
                         (unsigned char)side, (unsigned char)matched};
    return e->module ? SB_OK : no_memory(err);
}

static int entry_order(const void *left, const void *right)
{
    const sb_take_entry *a = left, *b = right;
    int order = strcmp(a->module, b->module);
    if (order)
        return order;
    return a->side != b->side ? a->side - b->side
                              : (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

static sb_status make_entries(plan *p, sb_error *err)
{
    size_t total = sb_checkpoint_count(p->side[0]) + sb_checkpoint_count(p->side[1]);
    sb_status status = note_blocks(p, err);
    p->entries = sb_alloc(total, sizeof *p->entries);
    if (!p->entries)
        return no_memory(err);
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < sb_checkpoint_count(p->side[side]) && !status; i++)
            status = add_entry(p, side, (uint32_t)i, err);
    if (!status && p->count)
        qsort(p->entries, p->count, sizeof *p->entries, entry_order);
    return status;
}

/* --- matching the patterns -------------------------------------------------------------------- */

/* Copies the longest piece of the pattern without wildcards. */
static void literal_of(const char *pattern, char *text, size_t size)
{
    size_t best = 0;
    text[0] = '\0';
    for (size_t n; *pattern; pattern += n + (pattern[n] != '\0')) {
        n = strcspn(pattern, "*?");
        if (n > best) {
            best = n;
            snprintf(text, size, "%.*s", (int)n, pattern);
        }
    }
}

/* Reports a pattern without a match, with names that resemble it. */
static sb_status no_match(const plan *p, const char *pattern, sb_error *err)
{
    char part[SB_MAX_TENSOR_NAME], near[600] = "";
    unsigned found = 0;
    literal_of(pattern, part, sizeof part);
    for (size_t n = strlen(part); n > 2 && !found; part[--n] = '\0')
        for (size_t i = 0; i < p->count && found < 3; i++)
            if (strstr(p->entries[i].module, part) &&
                (i == 0 || strcmp(p->entries[i].module, p->entries[i - 1].module) != 0))
                snprintf(near + strlen(near), sizeof near - strlen(near), "%s%s",
                         found++ ? ", " : "", SB_SHOW(p->entries[i].module));
    for (size_t i = 0, n = 0; i < p->count && !found;
         i++) { /* if no name is similar, the message lists the first parts of names */
        const char *module = p->entries[i].module, *before = i ? p->entries[i - 1].module : "";
        if (i == 0 || strncmp(module, before, n + 1) != 0)
            snprintf(near + strlen(near), sizeof near - strlen(near), "%s%.*s", i ? ", " : "",
                     (int)strcspn(module, "."), module);
        n = strcspn(module, ".");
    }
    return sb_fail(err, SB_ERR_USAGE, "no tensor matches \"%s\"; there are %s", SB_SHOW(pattern),
                   near);
}

static sb_status check_patterns(const plan *p, sb_error *err)
{
    for (size_t i = 0; i < p->pattern_count; i++)
        if (!p->used[i])
            return no_match(p, p->patterns[i], err);
    if (p->out->taken_count == 0)
        return sb_fail(err, SB_ERR_USAGE, "%s: has nothing that matches \"%s\"%s",
                       SB_SHOW(sb_checkpoint_path(p->side[SB_SIDE_OTHER])), SB_SHOW(p->patterns[0]),
                       p->pattern_count > 1 ? " or the others" : "");
    return SB_OK;
}

/* If experts are replaced as one module, the patterns must match all of them on one side. */
static sb_status check_whole(const sb_take_group *g, sb_error *err)
{
    size_t all[2] = {0, 0}, asked[2] = {0, 0};
    for (size_t i = 0; i < g->count; i++) {
        all[g->entries[i].side]++;
        asked[g->entries[i].side] += g->entries[i].matched;
    }
    size_t n = strlen(g->entries[0].module), m = strlen(".experts");
    int experts = n > m && strcmp(g->entries[0].module + n - m, ".experts") == 0;
    if (!experts || (all[0] && asked[0] == all[0]) || (all[1] && asked[1] == all[1]))
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE,
                   "%s: one side stores these experts as a stack and the other one by one: they "
                   "can only be taken together, by \"%s.*\"",
                   SB_SHOW(g->entries[0].module), SB_SHOW(g->entries[0].module));
}

static sb_status add_module(plan *p, const sb_take_group *g, sb_error *err)
{
    sb_take *out = p->out;
    sb_taken_module m = {.name = sb_strdup(g->entries[0].module)};
    if (!m.name)
        return no_memory(err);
    for (size_t i = g->count; i-- > 0;) {
        const sb_take_entry *e = &g->entries[i];
        const sb_tensor *t = sb_checkpoint_at(g->side[e->side], e->tensor);
        if (e->side == SB_SIDE_BASE) {
            m.goes++;
            m.goes_bytes += t->bytes;
            m.first_goes = e->tensor;
        } else {
            m.comes++;
            m.comes_bytes += t->bytes;
            m.first_comes = e->tensor;
        }
    }
    out->lacking += m.comes == 0;
    out->added += m.goes == 0;
    out->modules[out->module_count++] = m;
    return SB_OK;
}

/* W-3: "all parts that the checkpoint has go. All parts that the other side has come instead" */
static sb_status exchange(plan *p, const sb_take_group *g, const char *prefix, int vision_in_model,
                          sb_error *err)
{
    sb_take *out = p->out;
    sb_status status = check_whole(g, err);
    if (!status)
        status = add_module(p, g, err);
    if (status)
        return status;
    const sb_taken_module *m = &out->modules[out->module_count - 1];
    if (m->comes && m->goes)
        status = sb_take_compare(g, err);
    for (size_t i = 0; i < g->count && m->comes && !status; i++) {
        const sb_take_entry *e = &g->entries[i];
        const sb_tensor *t = sb_checkpoint_at(g->side[e->side], e->tensor);
        if (e->side == SB_SIDE_BASE) {
            out->dropped[e->tensor] = 1;
            out->dropped_count++;
            out->dropped_bytes += t->bytes;
            continue;
        }
        char *name = sb_take_name(t->name, prefix, vision_in_model);
        out->taken[out->taken_count++] = (sb_overlaid){t, name};
        out->taken_bytes += t->bytes;
        status = name ? SB_OK : no_memory(err);
    }
    return status;
}

static int in_model(const sb_checkpoint *c, size_t i)
{
    return strncmp(sb_checkpoint_at(c, i)->name, "model.visual.", 13) == 0;
}

static int taken_order(const void *left, const void *right)
{
    return strcmp(((const sb_overlaid *)left)->name, ((const sb_overlaid *)right)->name);
}

static sb_status exchange_all(plan *p, sb_error *err)
{
    const char *prefix = sb_text_prefix(p->side[SB_SIDE_BASE]);
    int vision_in_model = 0;
    for (size_t i = 0; i < sb_checkpoint_count(p->side[0]) && !vision_in_model; i++)
        vision_in_model = in_model(p->side[0], i);
    if (!vision_in_model) /* if only `other` has a vision tower, the tower keeps its names */
        for (size_t i = 0; i < sb_checkpoint_count(p->side[1]) && !vision_in_model; i++)
            vision_in_model = in_model(p->side[1], i);
    sb_status status = SB_OK;
    for (size_t i = 0, n; i < p->count && !status; i += n) {
        int matched = 0;
        for (n = 0; i + n < p->count && strcmp(p->entries[i + n].module, p->entries[i].module) == 0;
             n++)
            matched |= p->entries[i + n].matched;
        sb_take_group g = {{p->side[0], p->side[1]}, p->entries + i, n};
        if (matched)
            status = exchange(p, &g, prefix, vision_in_model, err);
    }
    if (!status && p->out->taken_count)
        qsort(p->out->taken, p->out->taken_count, sizeof *p->out->taken, taken_order);
    return status;
}

static sb_status check_globs(const plan *p, sb_error *err)
{
    if (p->pattern_count == 0 || p->pattern_count > sizeof p->used)
        return sb_fail(err, SB_ERR_USAGE, "%zu patterns; expected 1 to %zu", p->pattern_count,
                       sizeof p->used);
    for (size_t i = 0; i < p->pattern_count; i++)
        if (!p->patterns[i][0] || strchr(p->patterns[i], '['))
            return sb_fail(err, SB_ERR_USAGE,
                           "the pattern \"%s\" is not read; expected a name with * and ?",
                           SB_SHOW(p->patterns[i]));
    return SB_OK;
}

sb_status sb_take_plan(const sb_checkpoint *base, const sb_checkpoint *other,
                       const char *const *patterns, size_t count, sb_take *out, sb_error *err)
{
    plan p = {.side = {base, other}, .patterns = patterns, .pattern_count = count, .out = out};
    *out = (sb_take){0};
    sb_status status = check_globs(&p, err);
    if (!status)
        status = make_entries(&p, err);
    out->dropped = sb_alloc(sb_checkpoint_count(base), 1);
    out->taken = sb_alloc(sb_checkpoint_count(other), sizeof *out->taken);
    out->modules = sb_alloc(p.count, sizeof *out->modules);
    if (!status && (!out->dropped || !out->taken || !out->modules))
        status = no_memory(err);
    if (!status)
        status = exchange_all(&p, err);
    if (!status)
        status = check_patterns(&p, err);
    for (size_t i = 0; i < p.count; i++)
        free(p.entries[i].module);
    for (size_t i = 0; i < p.block_count; i++)
        free(p.blocks[i].name);
    free(p.entries);
    free(p.blocks);
    if (status)
        sb_take_free(out);
    return status;
}

void sb_take_free(sb_take *take)
{
    for (size_t i = 0; i < take->module_count; i++)
        free(take->modules[i].name);
    for (size_t i = 0; i < take->taken_count; i++)
        free(take->taken[i].name);
    free(take->modules);
    free(take->taken);
    free(take->dropped);
    *take = (sb_take){0};
}

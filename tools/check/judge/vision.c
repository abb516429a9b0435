/* vision.c - checks 5, 7, 9: is the vision tower complete, and does it match the text model? */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/check/judge/config_trees.h"
#include "tools/check/judge/structure.h"

typedef struct row {
    int block;
    const char *name;
} row;

static const row rows[] = {
#define SCOPE_root 0
#define SCOPE_block 1
#define SB_VISION(scope, name, kind, rank, d0, d1, d2, d3, d4) {SCOPE_##scope, name},
#include "tools/make/vision.def"
#undef SB_VISION
};

typedef struct tower {
    const char *prefix; /* "model.visual." or "visual."; NULL: there is none */
    unsigned blocks;    /* the number of the last existing block, plus 1 */
} tower;

enum { BLOCKS_MAX = 1000 }; /* more than any tower has; check 3 reports larger numbers */

static tower find_tower(const sb_check *check)
{
    static const char *const prefixes[] = {"model.visual.", "visual."};
    const sb_units *u = &check->self.units;
    tower t = {0};
    for (size_t i = 0; i < u->count; i++) {
        const char *name = u->rows[i].name;
        for (size_t k = 0; k < 2; k++) {
            size_t n = strlen(prefixes[k]);
            if (strncmp(name, prefixes[k], n) != 0 || (t.prefix && t.prefix != prefixes[k]))
                continue;
            t.prefix = prefixes[k];
            if (strncmp(name + n, "blocks.", 7) == 0) {
                unsigned long block = strtoul(name + n + 7, NULL, 10);
                if (block < BLOCKS_MAX && block >= t.blocks)
                    t.blocks = (unsigned)block + 1;
            }
        }
    }
    return t;
}

static const char *name_of(const tower *t, const row *r, unsigned block, char name[SB_NAME_MAX])
{
    if (r->block)
        snprintf(name, SB_NAME_MAX, "%sblocks.%u.%s", t->prefix, block, r->name);
    else
        snprintf(name, SB_NAME_MAX, "%s%s", t->prefix, r->name);
    return name;
}

/* 1 if the name exists as a tensor, or as a layer in any container. */
static int is_here(const sb_check *check, const char *name)
{
    char module[SB_NAME_MAX];
    size_t n = strlen(name), tail = strlen(".weight");
    if (sb_unit_named(&check->self.units, name) || sb_elsewhere(check, name))
        return 1;
    if (n <= tail || strcmp(name + n - tail, ".weight") != 0)
        return 0;
    snprintf(module, sizeof module, "%.*s", (int)(n - tail), name);
    return sb_unit_named(&check->self.units, module) != NULL;
}

/* V-5: "If there is a vision tower" */
static void tell_missing(sb_check *check, const tower *t)
{
    char name[SB_NAME_MAX], first[SB_NAME_MAX] = "";
    size_t missing = 0, all = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (unsigned b = 0; b < (rows[i].block ? t->blocks : 1); b++) {
            all++;
            if (!is_here(check, name_of(t, &rows[i], b, name)) && missing++ == 0)
                memcpy(first, name, sizeof first);
        }
    if (missing)
        sb_check_find(check, 5, SB_LEVEL_error, first,
                      "is missing; %zu of the %zu tensors of a vision tower of %u blocks are "
                      "missing in all, and keep random values",
                      missing, all, t->blocks);
}

static int is_shaped_alike(const sb_tensor *a, const sb_tensor *b)
{
    return a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

/* V-7: "Blocks of the vision tower": the most frequent shape is the expected one. */
static void tell_shapes(sb_check *check, const tower *t)
{
    char name[SB_NAME_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const sb_tensor *like = NULL;
        size_t votes = 0;
        for (unsigned b = 0; b < t->blocks && rows[i].block; b++) {
            const sb_tensor *x =
                sb_checkpoint_find(check->self.checkpoint, name_of(t, &rows[i], b, name));
            if (!x)
                continue;
            if (votes == 0)
                like = x;
            votes = is_shaped_alike(like, x) ? votes + 1 : votes - 1;
        }
        for (unsigned b = 0; b < t->blocks && like; b++) {
            const sb_tensor *x =
                sb_checkpoint_find(check->self.checkpoint, name_of(t, &rows[i], b, name));
            sb_shape_text found, expected;
            if (x && x->dtype == like->dtype && !is_shaped_alike(x, like))
                sb_check_find(check, 7, SB_LEVEL_error, x->name,
                              "is %s, but in the other blocks of the vision tower it is %s",
                              sb_show_shape(x->rank, x->shape, &found),
                              sb_show_shape(like->rank, like->shape, &expected));
        }
    }
}

/* V-9: "vision_config" */
static void tell_config(sb_check *check, const tower *t)
{
    sb_config_trees trees;
    if (sb_config_trees_load(check->self.checkpoint, &trees)) {
        const json_t *vision = json_object_get(trees.root, "vision_config");
        const json_t *out = json_object_get(vision, "out_hidden_size");
        const json_t *depth = json_object_get(vision, "depth");
        uint32_t hidden = check->self.config.hidden_size;
        if (json_is_integer(out) && json_integer_value(out) != (json_int_t)hidden)
            sb_check_find(check, 9, SB_LEVEL_error, "",
                          "config.json: vision_config.out_hidden_size is %lld, expected "
                          "hidden_size, which is %u: the tower's output does not fit into the text "
                          "model",
                          (long long)json_integer_value(out), (unsigned)hidden);
        if (json_is_integer(depth) && json_integer_value(depth) != (json_int_t)t->blocks &&
            sb_is_whole(check))
            sb_check_find(check, 9, SB_LEVEL_error, "",
                          "config.json: vision_config.depth is %lld, but the tower has %u blocks: "
                          "blocks are left out, or keep random values",
                          (long long)json_integer_value(depth), t->blocks);
    }
    sb_config_trees_free(&trees);
}

void sb_check_vision(sb_check *check)
{
    tower t = find_tower(check);
    if (!t.prefix || !check->self.has_config || !check->self.config.vl || sb_is_fragment(check))
        return;
    if (sb_check_wanted(check, 5))
        tell_missing(check, &t);
    if (sb_check_wanted(check, 7))
        tell_shapes(check, &t);
    if (sb_check_wanted(check, 9))
        tell_config(check, &t);
}

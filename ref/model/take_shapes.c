/* take_shapes.c - checks that a module and its replacement have matrices of the same shapes, in any
 * storage. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/digest.h"
#include "ref/container/show.h"
#include "ref/model/layers.h"
#include "ref/model/take_parts.h"

/* A matrix, or a tensor outside the linear layers. */
typedef struct shape {
    char *name; /* name without the prefix */
    uint64_t rows, cols;
    const sb_tensor *alone; /* NULL: a matrix */
    int side;
} shape;

typedef struct shapes {
    shape *rows;
    size_t count, room;
    int side;
} shapes;

static sb_status add(shapes *s, const char *name, uint64_t rows, uint64_t cols,
                     const sb_tensor *alone, sb_error *err)
{
    shape *grown = sb_grow(s->rows, s->count, &s->room, sizeof *grown);
    if (!grown)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu shapes", s->count + 1);
    s->rows = grown;
    s->rows[s->count] = (shape){sb_strdup(sb_plain_name(name)), rows, cols, alone, s->side};
    if (!s->rows[s->count].name)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a name");
    s->count++;
    return SB_OK;
}

static sb_status add_piece(void *ctx, const sb_piece *piece, sb_error *err)
{
    return add(ctx, piece->name, piece->matrix.rows, piece->matrix.cols, NULL, err);
}

/* "....experts.gate_up_proj", but not "....experts.5.gate_proj". */
static int is_stack(const char *layer)
{
    static const char mark[] = ".experts.";
    const char *at = strstr(layer, mark);
    return at && (at[sizeof mark - 1] < '0' || at[sizeof mark - 1] > '9');
}

static sb_status add_layer(shapes *s, const sb_checkpoint *c, const char *layer, uint32_t experts,
                           sb_error *err)
{
    sb_found found;
    sb_status status = sb_detect_headers(c, layer, experts, &found, err);
    return status ? status : sb_each_piece(c, layer, &found, add_piece, s, err);
}

/* Adds a tensor or its layer, unless the layer was just added (the tensors of a layer are
 * neighbours in the order of names). Small parts of a stack add nothing, because its codes give
 * E. */
static sb_status add_tensor(shapes *s, const sb_checkpoint *c, const sb_tensor *t, char *before,
                            sb_error *err)
{
    char layer[SB_MAX_TENSOR_NAME];
    uint32_t experts;
    if (!sb_tensor_layer(t, layer, sizeof layer, &experts))
        return strstr(t->name, ".experts.") ? SB_OK : add(s, t->name, 0, 0, t, err);
    if (strcmp(layer, before) == 0 || (!experts && is_stack(layer)))
        return SB_OK;
    strcpy(before, layer);
    return add_layer(s, c, layer, experts, err);
}

static sb_status collect(const sb_take_group *g, int side, shapes *s, sb_error *err)
{
    const sb_checkpoint *c = g->side[side];
    char before[SB_MAX_TENSOR_NAME] = "";
    sb_status status = SB_OK;
    s->side = side;
    for (size_t i = 0; i < g->count && !status; i++)
        if (g->entries[i].side == side)
            status = add_tensor(s, c, sb_checkpoint_at(c, g->entries[i].tensor), before, err);
    return status;
}

static int by_name(const void *left, const void *right)
{
    const shape *a = left, *b = right;
    int order = strcmp(a->name, b->name);
    return order ? order : a->side - b->side;
}

static int same_vector(const sb_tensor *a, const sb_tensor *b)
{
    return a->rank == b->rank && memcmp(a->shape, b->shape, sizeof a->shape) == 0 &&
           (sb_dtype_bits(a->dtype) >= 16) == (sb_dtype_bits(b->dtype) >= 16);
}

static void shown(const shape *s, char *text, size_t size)
{
    sb_shape_text room;
    if (s->alone)
        snprintf(text, size, "%s %s", sb_dtype_name(s->alone->dtype),
                 sb_shape_show(s->alone, &room));
    else
        snprintf(text, size, "[%" PRIu64 ",%" PRIu64 "]", s->rows, s->cols);
}

/* W-4: "of the same shape on both sides, however they are stored" */
static sb_status compare_sorted(const sb_take_group *g, const shapes *s, sb_error *err)
{
    const char *path[2] = {sb_checkpoint_path(g->side[0]), sb_checkpoint_path(g->side[1])};
    for (size_t i = 0; i < s->count; i++) {
        const shape *a = &s->rows[i], *b = i + 1 < s->count ? a + 1 : NULL;
        if (!b || strcmp(a->name, b->name) != 0) {
            if (a->side == SB_SIDE_OTHER && a->alone)
                continue; /* an extra vector, such as a bias, is added, too */
            return sb_fail(err, SB_ERR_INPUT, "%s: has %s, which %s lacks: this is another model",
                           SB_SHOW(path[a->side]), SB_SHOW(a->name), SB_SHOW(path[!a->side]));
        }
        char texts[2][300];
        shown(a, texts[0], sizeof texts[0]);
        shown(b, texts[1], sizeof texts[1]);
        int same = a->alone && b->alone
                       ? same_vector(a->alone, b->alone)
                       : !a->alone && !b->alone && a->rows == b->rows && a->cols == b->cols;
        if (!same)
            return sb_fail(
                err, SB_ERR_INPUT,
                "%s: %s is %s, but %s in %s: this is another model, and nothing is taken from it",
                SB_SHOW(path[SB_SIDE_OTHER]), SB_SHOW(b->name), texts[1], texts[0],
                SB_SHOW(path[SB_SIDE_BASE]));
        i++;
    }
    return SB_OK;
}

sb_status sb_take_compare(const sb_take_group *group, sb_error *err)
{
    shapes s = {0};
    sb_status status = collect(group, SB_SIDE_BASE, &s, err);
    if (!status)
        status = collect(group, SB_SIDE_OTHER, &s, err);
    if (!status && s.count) {
        qsort(s.rows, s.count, sizeof *s.rows, by_name);
        status = compare_sorted(group, &s, err);
    }
    for (size_t i = 0; i < s.count; i++)
        free(s.rows[i].name);
    free(s.rows);
    return status;
}

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "tools/check/scan/across.h"
#include "tools/check/scan/content.h"

enum {
    SMALL = 4096, /* bytes: tensors up to this size need enough information of their own */
    LEAST = 128,
    BITS = 256
};

/* A tensor of a unit, or a matrix inside a stack of experts. */
typedef struct payload {
    const sb_unit *unit;
    const sb_member *member; /* NULL: the tensor as a whole */
    const sb_tensor *tensor;
    const char *name;
    const char *digest; /* digest of the whole tensor */
    const unsigned char *bytes;
    uint64_t count;
    int codes; /* 1: the tensor has the module's codes; 0: one of its scales */
} payload;

typedef struct payloads {
    payload *rows;
    size_t count, room;
} payloads;

static void add(sb_check *check, payloads *to, payload one)
{
    payload *grown = sb_grow(to->rows, to->count, &to->room, sizeof *grown);
    if (!grown) {
        check->findings.lost = 1;
        return;
    }
    to->rows = grown;
    to->rows[to->count++] = one;
}

/* All elements are equal: zero experts, vectors of one scale. */
static int is_constant(const payload *p)
{
    static const size_t sizes[] = {1, 2, 4};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (p->count > sizes[i] &&
            memcmp(p->bytes, p->bytes + sizes[i], (size_t)p->count - sizes[i]) == 0)
            return 1;
    return 0;
}

static int is_code_part(sb_model_part part)
{
    return part == SB_PART_weight || part == SB_PART_weight_packed || part == SB_PART_qweight;
}

/* Column orders and shapes may be equal in all layers with the same shape. */
static int may_repeat(sb_model_part part)
{
    return part == SB_PART_g_idx || part == SB_PART_weight_g_idx || part == SB_PART_weight_shape ||
           part == SB_PART_pre_quant_scale;
}

/* V-13: "Tensors of 128 bytes or more" */
static int is_too_little(const sb_tensor *t)
{
    return t->bytes < LEAST ||
           (t->bytes <= SMALL && (sb_is_periodic(t->data, (size_t)t->bytes, 64) ||
                                  sb_bits_said(t->data, (size_t)t->bytes) < BITS));
}

static void add_tensor(sb_check *check, payloads *to, const sb_unit *unit, sb_model_part part)
{
    const sb_tensor *t = unit->tensor ? unit->tensor : unit->found.part[part];
    if (!t || !unit->digest[part].hex[0])
        return;
    if ((!unit->tensor && may_repeat(part)) || is_too_little(t))
        return;
    add(check, to,
        (payload){.unit = unit,
                  .tensor = t,
                  .name = t->name,
                  .digest = unit->digest[part].hex,
                  .bytes = t->data,
                  .count = t->bytes,
                  .codes = unit->tensor || is_code_part(part)});
}

static void add_piece(sb_check *check, payloads *to, const sb_member *m)
{
    uint64_t row = (uint64_t)m->matrix.cols * sb_format_bits(m->matrix.format) / 8;
    if (!m->unit->found.experts || !m->seen->moments.count || row * m->matrix.rows <= SMALL ||
        m->matrix.quant.packing != SB_PACKING_rows || m->matrix.row_map)
        return;
    add(check, to,
        (payload){.unit = m->unit,
                  .member = m,
                  .name = m->name,
                  .bytes = m->matrix.data + m->matrix.first_row * row,
                  .count = row * m->matrix.rows,
                  .codes = 1});
}

static int by_digest(const void *a, const void *b)
{
    const payload *x = a, *y = b;
    int order = strcmp(x->digest, y->digest);
    return order ? order : strcmp(x->name, y->name);
}

static int compare(double x, double y)
{
    return (x > y) - (x < y);
}

/* Orders pieces by their moments, then by their bytes. Equal bytes have equal moments, so that
 * pieces of a stack need no digests. */
static int bytes_order(const payload *x, const payload *y)
{
    int order = compare(x->member->seen->moments.sum2, y->member->seen->moments.sum2);
    order = order ? order : (x->count > y->count) - (x->count < y->count);
    return order ? order : memcmp(x->bytes, y->bytes, (size_t)x->count);
}

static int by_bytes(const void *a, const void *b)
{
    int order = bytes_order(a, b);
    return order ? order : strcmp(((const payload *)a)->name, ((const payload *)b)->name);
}

static int same(const payload *x, const payload *y)
{
    if (x->count != y->count)
        return 0;
    return x->member ? bytes_order(x, y) == 0 : strcmp(x->digest, y->digest) == 0;
}

static int is_tied(const sb_check *check, const payload *x, const payload *y)
{
    const char *a = x->unit->kind, *b = y->unit->kind;
    int pair = (strcmp(a, "lm_head") == 0 && strcmp(b, "embed_tokens") == 0) ||
               (strcmp(b, "lm_head") == 0 && strcmp(a, "embed_tokens") == 0);
    return pair && (!check->self.has_config || check->self.config.tie_embeddings);
}

/* V-13: "both names are given" - only an original can tell which one is wrong. */
static void tell(sb_check *check, const payload *one, const payload *other, size_t others,
                 unsigned char *told)
{
    if (told && told[one->unit - check->self.units.rows])
        return;
    if (told)
        told[one->unit - check->self.units.rows] = 1;
    if (others > 1)
        sb_check_find(check, 13, SB_LEVEL_error, one->name,
                      "has the same %" PRIu64 " bytes as %s and %zu more", one->count,
                      SB_SHOW(other->name), others - 1);
    else
        sb_check_find(check, 13, SB_LEVEL_error, one->name, "has the same %" PRIu64 " bytes as %s",
                      one->count, SB_SHOW(other->name));
}

static void judge_payloads(sb_check *check, const payloads *all, size_t first, size_t end,
                           int codes, unsigned char *told)
{
    const payload *rows = all->rows;
    if (end - first < 2 || rows[first].codes != codes || is_constant(&rows[first]) ||
        (end - first == 2 && is_tied(check, &rows[first], &rows[first + 1])))
        return;
    for (size_t i = first; i < end; i++)
        tell(check, &rows[i], &rows[i == first ? first + 1 : first], end - first - 1, told);
}

/* Judges all tensors, codes first: if several tensors of a module are copies, the finding names the
 * codes. */
static void judge_all(sb_check *check, const payloads *all, unsigned char *told)
{
    for (int codes = 1; codes >= 0; codes--)
        for (size_t i = 0, end; i < all->count; i = end) {
            for (end = i + 1; end < all->count && same(&all->rows[i], &all->rows[end]);)
                end++;
            judge_payloads(check, all, i, end, codes, told);
        }
}

/* V-13: "a head that is tied" but stored: no engine reads the stored head, so it must equal the
 * embedding. Check 3 reports a head in another container. */
static void tell_untied(sb_check *check)
{
    const sb_units *u = &check->self.units;
    const sb_unit *head = NULL, *embed = NULL;
    for (size_t i = 0; i < u->count; i++) {
        const sb_unit *unit = &u->rows[i];
        if (unit->region == SB_REGION_mtp || unit->tensor || unit->status ||
            unit->found.container != SB_CONTAINER_plain)
            continue;
        if (strcmp(unit->kind, "lm_head") == 0)
            head = unit;
        else if (strcmp(unit->kind, "embed_tokens") == 0)
            embed = unit;
    }
    const sb_tensor *a = head ? head->found.part[SB_PART_weight] : NULL;
    const sb_tensor *b = embed ? embed->found.part[SB_PART_weight] : NULL;
    if (!check->self.has_config || !check->self.config.tie_embeddings || !a || !b ||
        a->dtype != b->dtype || !head->digest[SB_PART_weight].hex[0] ||
        !embed->digest[SB_PART_weight].hex[0] ||
        strcmp(head->digest[SB_PART_weight].hex, embed->digest[SB_PART_weight].hex) == 0)
        return;
    sb_check_find(check, 13, SB_LEVEL_error, a->name,
                  "is not the embedding, but tie_word_embeddings is true: engines use the "
                  "embedding instead, although the model was made with this head");
}

void sb_check_duplicates(sb_check *check)
{
    const sb_units *u = &check->self.units;
    payloads tensors = {0}, pieces = {0};
    unsigned char *told = sb_alloc(u->count + 1, 1);
    if (!sb_check_wanted(check, 13) || !told) {
        check->findings.lost |= !told;
        free(told);
        return;
    }
    for (size_t i = 0; i < u->count; i++)
        for (unsigned part = 0; part < (u->rows[i].tensor ? 1u : (unsigned)SB_PART_COUNT); part++)
            add_tensor(check, &tensors, &u->rows[i], (sb_model_part)part);
    for (size_t i = 0; i < u->member_count; i++)
        add_piece(check, &pieces, &u->members[i]);
    if (tensors.count)
        qsort(tensors.rows, tensors.count, sizeof *tensors.rows, by_digest);
    if (pieces.count)
        qsort(pieces.rows, pieces.count, sizeof *pieces.rows, by_bytes);
    tell_untied(check);
    judge_all(check, &tensors, told);
    judge_all(check, &pieces, NULL);
    free(tensors.rows);
    free(pieces.rows);
    free(told);
}

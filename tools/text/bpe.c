/* bpe.c - the merges of one piece, with a list of symbols and a heap of mergeable pairs.
 *
 * A pair in the heap may be stale: one of its two symbols has become part of another. Then the
 * symbols now at this place are a pair of another rank, or no pair, and the stale pair is dropped
 * when it comes up. A piece of n bytes takes n log n steps. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/text/parts.h"

enum { NONE = UINT32_MAX >> 1 };

typedef struct pair {
    uint32_t rank, at, made;
} pair;

struct sb_text_work {
    size_t room; /* most bytes of a piece */
    uint32_t *id, *before, *behind;
    pair *heap;
    size_t pairs;
};

sb_text_work *sb_text_work_new(void)
{
    return sb_alloc(1, sizeof(sb_text_work));
}

static void release(sb_text_work *work)
{
    free(work->id);
    free(work->before);
    free(work->behind);
    free(work->heap);
    *work = (sb_text_work){0};
}

void sb_text_work_free(sb_text_work *work)
{
    if (work)
        release(work);
    free(work);
}

/* The heap starts with at most n - 1 pairs; each of at most n - 1 merges takes one and adds at most
 * two. */
static sb_status grow(sb_text_work *work, size_t bytes, sb_error *err)
{
    if (bytes <= work->room)
        return SB_OK;
    size_t room = bytes < 256 ? 256 : bytes;
    release(work);
    work->id = sb_alloc(room, sizeof *work->id);
    work->before = sb_alloc(room, sizeof *work->before);
    work->behind = sb_alloc(room, sizeof *work->behind);
    work->heap = sb_alloc(room, 2 * sizeof *work->heap);
    if (!work->id || !work->before || !work->behind || !work->heap)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a piece of %zu bytes", bytes);
    work->room = room;
    return SB_OK;
}

static const sb_text_merge *find_merge(const sb_tokenizer *t, uint32_t left, uint32_t right)
{
    size_t low = t->first[left], high = t->first[left + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->merges[middle].right < right)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->first[left + 1] && t->merges[low].right == right ? &t->merges[low] : NULL;
}

/* N-6: "the pair of lowest rank, and among equal ranks the leftmost" */
static int is_before(const pair *a, const pair *b)
{
    return a->rank < b->rank || (a->rank == b->rank && a->at < b->at);
}

static void push(sb_text_work *work, pair added)
{
    size_t at = work->pairs++;
    while (at > 0 && is_before(&added, &work->heap[(at - 1) / 2])) {
        work->heap[at] = work->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    work->heap[at] = added;
}

static pair pop(sb_text_work *work)
{
    pair top = work->heap[0], last = work->heap[--work->pairs];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < work->pairs) {
        if (child + 1 < work->pairs && is_before(&work->heap[child + 1], &work->heap[child]))
            child++;
        if (!is_before(&work->heap[child], &last))
            break;
        work->heap[at] = work->heap[child];
        at = child;
    }
    work->heap[at] = last;
    return top;
}

/* Adds the pair of the symbol at `at` and the next one if they can be merged. */
static void consider(const sb_tokenizer *t, sb_text_work *work, uint32_t at)
{
    uint32_t behind = at == NONE ? NONE : work->behind[at];
    if (behind == NONE)
        return;
    const sb_text_merge *merge = find_merge(t, work->id[at], work->id[behind]);
    if (merge)
        push(work, (pair){merge->rank, at, merge->made});
}

/* Merges the pair unless it is stale. For a symbol merged into another one, behind[] is the symbol
 * itself. */
static void apply(const sb_tokenizer *t, sb_text_work *work, const pair *top)
{
    uint32_t at = top->at, right = work->behind[at];
    if (right == at || right == NONE)
        return;
    const sb_text_merge *merge = find_merge(t, work->id[at], work->id[right]);
    if (!merge || merge->rank != top->rank)
        return;
    uint32_t next = work->behind[right];
    work->id[at] = top->made;
    work->behind[at] = next;
    work->behind[right] = right;
    if (next != NONE)
        work->before[next] = at;
    consider(t, work, work->before[at]);
    consider(t, work, at);
}

/* The id of the token of the vocabulary with exactly these bytes, or NONE. */
static uint32_t find_whole(const sb_tokenizer *t, const unsigned char *piece, size_t bytes)
{
    size_t low = 0, high = t->whole_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const sb_text_token *token = &t->tokens[t->whole[middle]];
        size_t common = token->size < bytes ? token->size : bytes;
        int order = memcmp(t->arena + token->at, piece, common);
        if (order == 0 && token->size == bytes)
            return t->whole[middle];
        if (order < 0 || (order == 0 && token->size < bytes))
            low = middle + 1;
        else
            high = middle;
    }
    return NONE;
}

sb_status sb_text_merge_piece(const sb_tokenizer *t, sb_text_work *work, const unsigned char *piece,
                              size_t bytes, sb_text_ids *out, sb_error *err)
{
    sb_status status = sb_text_reserve(out, bytes, err);
    uint32_t whole = t->ignore_merges ? find_whole(t, piece, bytes) : NONE;
    if (!status && whole != NONE) {
        out->ids[out->count++] = whole;
        return SB_OK;
    }
    if (!status)
        status = grow(work, bytes, err);
    if (status)
        return status;
    uint32_t n = (uint32_t)bytes;
    work->pairs = 0;
    for (uint32_t i = 0; i < n; i++) {
        work->id[i] = t->byte_ids[piece[i]];
        work->before[i] = i > 0 ? i - 1 : NONE;
        work->behind[i] = i + 1 < n ? i + 1 : NONE;
    }
    for (uint32_t i = 0; i < n; i++)
        consider(t, work, i);
    while (work->pairs > 0) {
        pair top = pop(work);
        apply(t, work, &top);
    }
    for (uint32_t i = 0; i != NONE; i = work->behind[i])
        out->ids[out->count++] = work->id[i];
    return SB_OK;
}

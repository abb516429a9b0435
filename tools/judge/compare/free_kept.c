/* free_kept.c - compares the rows of a recorded cache with the rows of the state recorded
 * before. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "tools/judge/compare/free_parts.h"

struct sb_free_rows {
    float *data;
    size_t count, room;
};

void sb_free_drop_rows(sb_free_sequence *s)
{
    for (size_t i = 0; i < s->pieces; i++)
        free(s->rows_before[i].data);
    free(s->rows_before);
    s->rows_before = NULL;
    s->pieces = 0;
}

int sb_free_is_cache(const sb_piece *p)
{
    return p->kind == SB_PIECE_keys || p->kind == SB_PIECE_values;
}

const float *sb_free_changed(const sb_free_sequence *s, size_t index, const float *theirs, size_t n,
                             size_t *at)
{
    const struct sb_free_rows *r = index < s->pieces ? &s->rows_before[index] : NULL;
    size_t most = !r ? 0 : r->count < n ? r->count : n;
    for (size_t i = 0; i < most; i++)
        if (sb_bits_f32(r->data[i]) != sb_bits_f32(theirs[i])) {
            *at = i;
            return &r->data[i];
        }
    return NULL;
}

sb_status sb_free_keep_rows(sb_free_sequence *s, size_t index, const float *theirs, size_t n,
                            sb_error *err)
{
    size_t pieces = sb_state_pieces(sb_session_state(sb_envelope_session(s->envelope, 0)));
    if (!s->rows_before) {
        s->rows_before = sb_alloc(pieces, sizeof *s->rows_before);
        s->pieces = s->rows_before ? pieces : 0;
    }
    struct sb_free_rows *r = index < s->pieces ? &s->rows_before[index] : NULL;
    if (r && n > r->room) {
        size_t room = 2 * r->room > n ? 2 * r->room : n;
        float *data = sb_realloc(r->data, room, sizeof *data);
        if (data)
            r->data = data;
        if (data)
            r->room = room;
    }
    if (!r || n > r->room)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the rows of a state");
    memcpy(r->data, theirs, n * sizeof *theirs);
    r->count = n;
    return SB_OK;
}

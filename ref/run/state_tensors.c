/* state_tensors.c - makes the pieces of a state from the tensors of a file (D-10). */
#include <inttypes.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/digest.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "ref/run/state_reader.h"
#include "ref/state/piece.h"

const sb_tensor *sb_state_find_tensor(const sb_state_reader *r, const char *name)
{
    for (size_t i = 0; i < r->in->count; i++)
        if (strcmp(r->in->tensors[i].name, name) == 0)
            return &r->in->tensors[i];
    return NULL;
}

static int is_right_type(const sb_state_reader *r, sb_dtype found, sb_dtype expected)
{
    int is_plain = found == SB_DTYPE_BF16 || found == SB_DTYPE_F16;
    return found == expected || (r->bare && expected == SB_DTYPE_F32 && is_plain);
}

static sb_status check_tensor(const sb_state_reader *r, const char *name, sb_dtype dtype,
                              unsigned rank, const uint64_t *shape)
{
    sb_tensor expected = {.rank = rank};
    sb_shape_text found_text, expected_text;
    const sb_tensor *t = sb_state_find_tensor(r, name);
    memcpy(expected.shape, shape, rank * sizeof *shape);
    if (!t)
        return sb_fail(r->err, SB_ERR_INPUT, "%s: has no tensor \"%s\"", SB_SHOW(r->path), name);
    if (!is_right_type(r, t->dtype, dtype) || t->rank != rank ||
        memcmp(t->shape, shape, rank * sizeof *shape) != 0)
        return sb_fail(r->err, SB_ERR_INPUT, "%s: tensor \"%s\" is %s %s, expected %s %s",
                       SB_SHOW(r->path), name, sb_dtype_name(t->dtype),
                       sb_shape_show(t, &found_text), sb_dtype_name(dtype),
                       sb_shape_show(&expected, &expected_text));
    return SB_OK;
}

sb_status sb_state_check_tensors(const sb_state_reader *r, const sb_state *sizes)
{
    size_t pieces = sb_state_pieces(sizes), expected = r->values[SB_STATE_KEY_tokens] ? 1 : 0;
    sb_status status = SB_OK;
    for (size_t i = 0; i < pieces; i++) {
        sb_piece p = sb_state_piece(sizes, i);
        expected += sb_piece_elements(&p) > 0;
    }
    if (r->in->count > expected)
        return sb_fail(r->err, SB_ERR_INPUT,
                       "%s: has %zu tensors, expected %zu: the pieces of its state%s",
                       SB_SHOW(r->path), r->in->count, expected,
                       r->values[SB_STATE_KEY_tokens] ? " and its tokens" : "");
    for (size_t i = 0; i < pieces && !status; i++) {
        sb_piece p = sb_state_piece(sizes, i);
        if (sb_piece_elements(&p) > 0)
            status = check_tensor(r, p.name, SB_DTYPE_F32, p.rank, p.shape);
    }
    if (!status && r->values[SB_STATE_KEY_tokens])
        status = check_tensor(r, "tokens", SB_DTYPE_I32, 1, &sizes->position);
    return status;
}

static sb_status fill_piece(const sb_state_reader *r, const sb_piece *p)
{
    size_t elements = (size_t)sb_piece_elements(p);
    if (elements == 0)
        return SB_OK;
    const sb_tensor *t = sb_state_find_tensor(r, p->name);
    sb_decode(t->dtype == SB_DTYPE_F32    ? SB_FORMAT_f32
              : t->dtype == SB_DTYPE_BF16 ? SB_FORMAT_bf16
                                          : SB_FORMAT_f16,
              t->data, elements, p->data);
    for (size_t i = 0; i < elements; i++) {
        if (sb_is_finite_f32(p->data[i]))
            continue;
        sb_piece_place place = sb_piece_find(&r->out->config, p, i);
        return sb_fail(r->err, SB_ERR_INPUT,
                       "%s: tensor \"%s\": row %" PRIu64 ", column %" PRIu64 " of head %" PRIu64
                       " is not finite",
                       SB_SHOW(r->path), p->name, place.row, place.col, place.head);
    }
    return SB_OK;
}

sb_status sb_state_fill(const sb_state_reader *r, const sb_state *sizes)
{
    sb_state *state = NULL;
    uint64_t rows = sizes->position > sizes->mtp_entries ? sizes->position : sizes->mtp_entries;
    sb_status status = sb_state_new(&r->out->config, sizes->has_mtp, &state, r->err);
    if (status)
        return status;
    r->out->state = state;
    if (rows)
        status = sb_state_reserve(state, rows, r->err);
    if (status)
        return status;
    if (sizes->drafter)
        status = sb_drafter_state_new(sizes->drafter, &state->drafter, r->err);
    state->position = sizes->position;
    state->mtp_entries = sizes->mtp_entries;
    for (size_t i = 0; i < sb_state_pieces(state) && !status; i++) {
        sb_piece p = sb_state_piece(state, i);
        status = fill_piece(r, &p);
    }
    return status;
}

#include "ref/state/compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/state/drafter.h"

/* The sizes that must be equal, by the names of config.json. */
static sb_status check_sizes(const sb_config *a, const sb_config *b, sb_error *err)
{
    const struct {
        const char *name;
        uint32_t a, b;
    } sizes[] = {
        {"num_hidden_layers", a->layers, b->layers},
        {"hidden_size", a->hidden_size, b->hidden_size},
        {"num_key_value_heads", a->kv_heads, b->kv_heads},
        {"head_dim", a->head_dim, b->head_dim},
        {"linear_conv_kernel_dim", a->conv_kernel, b->conv_kernel},
        {"linear_num_key_heads", a->lin_k_heads, b->lin_k_heads},
        {"linear_num_value_heads", a->lin_v_heads, b->lin_v_heads},
        {"linear_key_head_dim", a->lin_k_dim, b->lin_k_dim},
        {"linear_value_head_dim", a->lin_v_dim, b->lin_v_dim},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].a != sizes[i].b)
            return sb_fail(err, SB_ERR_USAGE,
                           "the states are of different models: %s is %u in one and %u in the "
                           "other",
                           sizes[i].name, (unsigned)sizes[i].a, (unsigned)sizes[i].b);
    for (uint32_t i = 0; i < a->layers; i++)
        if (a->layer_is_full[i] != b->layer_is_full[i])
            return sb_fail(err, SB_ERR_USAGE,
                           "the states are of different models: layer %u has full attention in "
                           "only one of them",
                           (unsigned)i);
    return SB_OK;
}

static sb_status check_drafters(const sb_drafter_state *a, const sb_drafter_state *b, sb_error *err)
{
    if (!a || !b ||
        (a->kv_heads == b->kv_heads && a->head_dim == b->head_dim && a->states == b->states &&
         a->width == b->width))
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE,
                   "the states have entries of different drafters: %u key heads of width %u and %u "
                   "states of width %u in one, %u of %u and %u of %u in the other",
                   (unsigned)a->kv_heads, (unsigned)a->head_dim, (unsigned)a->states,
                   (unsigned)a->width, (unsigned)b->kv_heads, (unsigned)b->head_dim,
                   (unsigned)b->states, (unsigned)b->width);
}

static void measure_element(sb_piece_difference *d, float a, float b)
{
    double distance = (double)a - (double)b;
    distance = distance < 0 ? -distance : distance;
    if (sb_is_finite_f32(a) && sb_is_finite_f32(b) && distance > d->largest)
        d->largest = distance;
}

sb_piece_difference sb_piece_compare(const sb_piece *a, const sb_piece *b)
{
    uint64_t in_a = sb_piece_elements(a), in_b = sb_piece_elements(b);
    sb_piece_difference d = {.compared = in_a < in_b ? in_a : in_b};
    for (size_t i = 0; i < d.compared; i++) {
        uint32_t left = sb_bits_f32(a->data[i]), right = sb_bits_f32(b->data[i]);
        if (left == right)
            continue;
        if (d.different++ == 0) {
            d.first = i;
            d.bits[0] = left;
            d.bits[1] = right;
        }
        measure_element(&d, a->data[i], b->data[i]);
    }
    return d;
}

/* S-11: "Differences are looked for in this order: position, number of entries, then the pieces in
 * the order of the layers" */
sb_status sb_state_compare(const sb_state *a, const sb_state *b, sb_state_difference *out,
                           sb_error *err)
{
    sb_status status = check_sizes(a->config, b->config, err);
    if (!status)
        status = check_drafters(a->drafter, b->drafter, err);
    if (status)
        return status;
    *out = (sb_state_difference){.position = {a->position, b->position},
                                 .entries = {a->mtp_entries, b->mtp_entries},
                                 .has_mtp = {a->has_mtp != 0, b->has_mtp != 0},
                                 .has_drafter = {a->drafter != NULL, b->drafter != NULL}};
    out->drafter_entries[0] = a->drafter ? a->drafter->entries : 0;
    out->drafter_entries[1] = b->drafter ? b->drafter->entries : 0;
    for (size_t i = 0; i < sb_state_pieces(a); i++) {
        sb_piece left, right;
        if (!sb_state_piece_pair(a, b, i, &left, &right))
            continue;
        out->pieces++;
        sb_piece_difference d = sb_piece_compare(&left, &right);
        out->different += d.different;
        if (!d.different || out->pieces_different++)
            continue;
        out->has_element = 1;
        out->piece = left;
        out->in_piece = d;
        out->place = sb_piece_find(a->config, &left, d.first);
    }
    out->differs = out->has_element || out->position[0] != out->position[1] ||
                   out->entries[0] != out->entries[1] || out->has_mtp[0] != out->has_mtp[1] ||
                   out->has_drafter[0] != out->has_drafter[1] ||
                   out->drafter_entries[0] != out->drafter_entries[1];
    return SB_OK;
}

static void add(sb_difference_text *room, const char *more)
{
    size_t used = strlen(room->text);
    snprintf(room->text + used, sizeof room->text - used, "%s%s", used ? "; " : "", more);
}

static void add_element(const sb_state_difference *d, sb_difference_text *room)
{
    char text[320], where[80] = "";
    const sb_piece_place *p = &d->place;
    if (p->has_head)
        snprintf(where, sizeof where, "%s%shead %" PRIu64 ", ", p->part ? p->part : "",
                 p->part ? " " : "", p->head);
    snprintf(text, sizeof text,
             "%s: %srow %" PRIu64 ", col %" PRIu64
             ": 0x%08x (%.9g) and 0x%08x (%.9g); in all %" PRIu64 " elements in %zu of %zu pieces",
             d->piece.name, where, p->row, p->col, (unsigned)d->in_piece.bits[0],
             (double)sb_f32_from_bits(d->in_piece.bits[0]), (unsigned)d->in_piece.bits[1],
             (double)sb_f32_from_bits(d->in_piece.bits[1]), d->different, d->pieces_different,
             d->pieces);
    add(room, text);
}

const char *sb_difference_show(const sb_state_difference *d, sb_difference_text *room)
{
    char text[80];
    room->text[0] = '\0';
    if (d->position[0] != d->position[1]) {
        snprintf(text, sizeof text, "position %" PRIu64 " and %" PRIu64, d->position[0],
                 d->position[1]);
        add(room, text);
    }
    if (d->has_mtp[0] != d->has_mtp[1]) {
        add(room,
            d->has_mtp[0] ? "only the first has an MTP head" : "only the second has an MTP head");
    } else if (d->entries[0] != d->entries[1]) {
        snprintf(text, sizeof text, "entries of the MTP head %" PRIu64 " and %" PRIu64,
                 d->entries[0], d->entries[1]);
        add(room, text);
    }
    if (d->has_drafter[0] != d->has_drafter[1]) {
        add(room, d->has_drafter[0] ? "only the first has entries of a drafter"
                                    : "only the second has entries of a drafter");
    } else if (d->drafter_entries[0] != d->drafter_entries[1]) {
        snprintf(text, sizeof text, "entries of the drafter %" PRIu64 " and %" PRIu64,
                 d->drafter_entries[0], d->drafter_entries[1]);
        add(room, text);
    }
    if (d->has_element)
        add_element(d, room);
    if (!d->differs)
        add(room, "the states are the same");
    return room->text;
}

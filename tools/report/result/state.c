#include "tools/report/result/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/show.h"
#include "ref/ops/knob.h"
#include "ref/state/compare.h"
#include "ref/state/drafter.h"
#include "tools/report/part/document.h"

/* --- one file --------------------------------------------------------------------------------- */

/* "[9, 2, 64]" */
typedef struct shape_text {
    char text[80];
} shape_text;

static const char *show_shape(const sb_piece *p, shape_text *room)
{
    room->text[0] = '\0';
    for (unsigned d = 0; d < p->rank; d++) {
        size_t used = strlen(room->text);
        snprintf(room->text + used, sizeof room->text - used, "%s%" PRIu64, d ? ", " : "[",
                 p->shape[d]);
    }
    return strcat(room->text, "]");
}

static json_t *digest_json(const sb_digest *digest)
{
    return SB_KNOWN(digest->hex[0], digest->hex);
}

static json_t *knobs_json(const sb_knobs *knobs)
{
    json_t *object = json_object();
    for (unsigned k = 0; k < SB_KNOB_COUNT; k++)
        SB_PUT(object, sb_knob_name((sb_knob)k), sb_knob_value_name(knobs->value[k]));
    return object;
}

static json_t *pieces_json(const sb_state *state)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < sb_state_pieces(state); i++) {
        sb_piece p = sb_state_piece(state, i);
        size_t elements = (size_t)sb_piece_elements(&p);
        sb_digest digest = sb_digest_f32(p.data, elements);
        json_t *row = json_object();
        SB_PUT(row, "name", p.name);
        SB_PUT(row, "shape", sb_counts_json(p.shape, p.rank));
        SB_PUT(row, "bytes", 4 * elements);
        SB_PUT(row, "digest", digest.hex);
        SB_ADD(rows, row);
    }
    return rows;
}

static sb_status show_json(const char *path, const sb_state_file *file, sb_error *err)
{
    const sb_state *s = file->state;
    json_t *document = sb_document("state");
    SB_PUT(document, "file", path);
    SB_PUT(document, "position", s->position);
    SB_PUT(document, "mtp_entries", SB_KNOWN(s->has_mtp, s->mtp_entries));
    SB_PUT(document, "checkpoint", file->checkpoint.hex);
    SB_PUT(document, "profile", file->profile);
    SB_PUT(document, "knobs", knobs_json(&file->knobs));
    SB_PUT(document, "kernels", json_boolean(file->kernels));
    SB_PUT(document, "tokens",
           SB_KNOWN(file->tokens, sb_ids_json(file->tokens, (size_t)s->position)));
    if (s->drafter)
        SB_PUT(document, "drafter",
               json_pack("{s:s,s:s,s:I}", "checkpoint", file->drafts_of.checkpoint.hex, "config",
                         file->drafts_of.text, "entries", (json_int_t)s->drafter->entries));
    SB_PUT(document, "state_digest",
           json_pack("{s:o,s:o}", "target", digest_json(&file->target), "mtp",
                     digest_json(&file->mtp)));
    if (s->drafter)
        SB_PUT(json_object_get(document, "state_digest"), "drafter", file->drafter.hex);
    SB_PUT(document, "pieces", pieces_json(s));
    return sb_print_document(document, err);
}

static void print_knobs(const sb_knobs *knobs)
{
    sb_knobs exact;
    sb_knobs_exact(&exact);
    for (unsigned k = 0; k < SB_KNOB_COUNT; k++)
        if (knobs->value[k] != exact.value[k])
            printf(" %s=%s", sb_knob_name((sb_knob)k), sb_knob_value_name(knobs->value[k]));
}

static void print_text(const char *path, const sb_state_file *file)
{
    const sb_state *s = file->state;
    uint64_t bytes = 0;
    shape_text shape;
    printf("state       %s\nposition    %" PRIu64 "%s\n", SB_SHOW(path), s->position,
           file->tokens ? ", with the tokens that were fed" : "");
    printf("checkpoint  %s\nprofile     %s", file->checkpoint.hex, SB_SHOW(file->profile));
    print_knobs(&file->knobs);
    printf("%s", file->kernels ? ", computed by kernels" : "");
    printf("\ntarget      %s\n", file->target.hex);
    if (s->has_mtp)
        printf("mtp         %s, %" PRIu64 " entries\n", file->mtp.hex, s->mtp_entries);
    if (s->drafter)
        printf("drafter     %s, %" PRIu64 " entries of %s\n", file->drafter.hex,
               s->drafter->entries, file->drafts_of.checkpoint.hex);
    for (size_t i = 0; i < sb_state_pieces(s); i++) {
        sb_piece p = sb_state_piece(s, i);
        size_t elements = (size_t)sb_piece_elements(&p);
        printf("%s  %-40s %s\n", sb_digest_f32(p.data, elements).hex, p.name,
               show_shape(&p, &shape));
        bytes += 4 * elements;
    }
    printf("%zu pieces, %" PRIu64 " bytes\n", sb_state_pieces(s), bytes);
}

sb_status sb_state_show(const char *path, const sb_state_file *file, int as_json, sb_error *err)
{
    if (as_json)
        return show_json(path, file, err);
    print_text(path, file);
    return SB_OK;
}

/* --- two files -------------------------------------------------------------------------------- */

/* Reasons why two valid files may differ. */
static const char *const notes[] = {
    "they belong to different checkpoints", "they were made under different knobs",
    "they belong to different configurations", "they have entries of different drafters",
    "the second has no metadata: its checkpoint and knobs are unknown"};

static int has_note(const sb_state_file *a, const sb_state_file *b, size_t i)
{
    if (i == 0)
        return strcmp(a->checkpoint.hex, b->checkpoint.hex) != 0;
    if (i == 1)
        return memcmp(&a->knobs, &b->knobs, sizeof a->knobs) != 0;
    if (i == 2)
        return strcmp(a->config_text, b->config_text) != 0;
    if (i == 3)
        return a->drafter.hex[0] && b->drafter.hex[0] &&
               (strcmp(a->drafts_of.checkpoint.hex, b->drafts_of.checkpoint.hex) != 0 ||
                strcmp(a->drafts_of.text, b->drafts_of.text) != 0);
    return b->bare;
}

static json_t *first_json(const sb_state_difference *d)
{
    const sb_piece_place *p = &d->place;
    char bits[2][12];
    if (!d->has_element)
        return json_null();
    for (int i = 0; i < 2; i++)
        snprintf(bits[i], sizeof bits[i], "0x%08x", (unsigned)d->in_piece.bits[i]);
    json_t *first = json_pack(
        "{s:s,s:o,s:s?,s:o,s:I,s:I,s:[s,s]}", "piece", d->piece.name, "layer",
        strncmp(d->piece.name, "mtp.", 4) == 0       ? json_string("mtp.0")
        : strncmp(d->piece.name, "drafter.", 8) == 0 ? json_string("drafter")
                                                     : json_integer(d->piece.layer),
        "part", p->part, "head", p->has_head ? json_integer((json_int_t)p->head) : json_null(),
        "row", (json_int_t)p->row, "col", (json_int_t)p->col, "bits", bits[0], bits[1]);
    return first;
}

static json_t *diff_pieces_json(const sb_state *a, const sb_state *b)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < sb_state_pieces(a); i++) {
        sb_piece left, right;
        if (!sb_state_piece_pair(a, b, i, &left, &right))
            continue;
        sb_piece_difference d = sb_piece_compare(&left, &right);
        if (d.different) {
            json_t *row = json_object();
            SB_PUT(row, "name", left.name);
            SB_PUT(row, "compared", d.compared);
            SB_PUT(row, "different", d.different);
            SB_PUT(row, "largest", d.largest);
            SB_ADD(rows, row);
        }
    }
    return rows;
}

static sb_status diff_json(const char *const paths[2], const sb_state_file *const files[2],
                           const sb_state_difference *d, sb_error *err)
{
    sb_difference_text text;
    json_t *document = sb_document("state"), *list = json_array(), *names = json_array();
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (has_note(files[0], files[1], i))
            SB_ADD(list, notes[i]);
    SB_PUT(document, "verdict", d->differs ? "FAIL" : "IDENTICAL");
    SB_ADD(names, paths[0]);
    SB_ADD(names, paths[1]);
    SB_PUT(document, "files", names);
    SB_PUT(document, "position",
           json_pack("[I,I]", (json_int_t)d->position[0], (json_int_t)d->position[1]));
    SB_PUT(document, "first", first_json(d));
    SB_PUT(document, "different", d->different);
    SB_PUT(document, "pieces", diff_pieces_json(files[0]->state, files[1]->state));
    SB_PUT(document, "notes", list);
    SB_PUT(document, "message", SB_KNOWN(d->differs, sb_difference_show(d, &text)));
    return sb_print_document(document, err);
}

static void print_diff(const char *const paths[2], const sb_state_file *const files[2],
                       const sb_state_difference *d)
{
    sb_difference_text text;
    if (d->differs)
        printf("FAIL %s\n", sb_difference_show(d, &text));
    else
        printf("IDENTICAL %s %s\n", SB_SHOW(paths[0]), SB_SHOW(paths[1]));
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (has_note(files[0], files[1], i))
            printf("note: %s\n", notes[i]);
    for (size_t i = 0; i < sb_state_pieces(files[0]->state); i++) {
        sb_piece a, b;
        if (!sb_state_piece_pair(files[0]->state, files[1]->state, i, &a, &b))
            continue;
        sb_piece_difference in = sb_piece_compare(&a, &b);
        if (in.different)
            printf("%-40s %" PRIu64 " of %" PRIu64 " elements, by up to %.3g\n", a.name,
                   in.different, in.compared, in.largest);
    }
}

sb_status sb_state_show_diff(const char *const paths[2], const sb_state_file *const files[2],
                             int as_json, sb_error *err)
{
    sb_state_difference d;
    sb_difference_text text;
    sb_error why = {""};
    if (sb_state_compare(files[0]->state, files[1]->state, &d, &why))
        return sb_fail(err, SB_ERR_INPUT, "%s and %s: %s", SB_SHOW(paths[0]), SB_SHOW(paths[1]),
                       why.text);
    sb_status status = SB_OK;
    if (as_json)
        status = diff_json(paths, files, &d, err);
    else
        print_diff(paths, files, &d);
    if (!status && d.differs)
        status = sb_fail(err, SB_ERR_DIFF, "%s and %s: %s", SB_SHOW(paths[0]), SB_SHOW(paths[1]),
                         sb_difference_show(&d, &text));
    return status;
}

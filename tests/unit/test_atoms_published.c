/* test_atoms_published.c - rows of ref/formats/atoms.def compared with published results of tensor
 * cores, and with another model of them.
 *
 *   test_atoms_published                 golden/atoms/published.safetensors: every bit is equal,
 *                                        and changed rows would give other bits
 *   test_atoms_published FILE            the same for another file
 *   test_atoms_published --table FILE    the lines of docs/atoms.md
 *
 * A result of the other model (source mmasim) may differ where H-13 has two readings, and then must
 * equal the second reading. All other bits must be equal. */
#include "tests/lib/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/atom_vectors.h"

static const char *path = "golden/atoms/published.safetensors";

/* --- changed rows * --------------------------------------------------------------------------- */

typedef enum change { FINER, COARSER, HALVED, REORDERED, CHANGES } change;

static sb_atom changed(const sb_atom *row, change which)
{
    sb_atom other = *row;
    if (which == FINER)
        other.fraction++;
    else if (which == COARSER)
        other.fraction--;
    else if (which == HALVED)
        other.block /= 2;
    else
        other.order = other.order == SB_ATOM_IN_PAIRS ? SB_ATOM_IN_ROW : SB_ATOM_IN_PAIRS;
    return other;
}

static size_t differences(const atom_vectors *v, const sb_atom *row)
{
    size_t count = 0;
    for (size_t i = 0; i < v->count; i++)
        count += atom_vectors_got(v, row, i) != atom_vectors_want(v, i);
    return count;
}

/* True if the vectors have terms in more than one block. */
static int has_order(const atom_vectors *v)
{
    return v->row->terms > v->row->block && v->width > v->row->block;
}

/* True if the vectors can tell this change; docs/atoms.md lists what they leave open. */
static int tells(const atom_vectors *v, change which)
{
    if (which == REORDERED && !has_order(v))
        return 0;
    if (which == FINER || which == COARSER) /* among sums in f16, only those of Ada, with 13 bits */
        return v->row->sums == SB_ATOM_F32 ? v->row->addend == SB_ATOM_FIRST
                                           : v->row->fraction == 13;
    return v->row->addend == SB_ATOM_FIRST || v->row->sums == SB_ATOM_F16;
}

/* --- what may differ -------------------------------------------------------------------------- */

typedef struct tally {
    size_t equal, groups, signs, unexplained, first;
} tally;

static int gives(const atom_vectors *v, size_t i, unsigned open)
{
    sb_atom row = *v->row;
    row.open = open;
    return atom_vectors_got(v, &row, i) == atom_vectors_want(v, i);
}

/* H-13: "Two points are OPEN, each with two readings." */
static tally judge(const atom_vectors *v)
{
    tally t = {0};
    const int model = strcmp(v->source, "mmasim") == 0;
    for (size_t i = 0; i < v->count; i++)
        if (gives(v, i, 0))
            t.equal++;
        else if (model && v->row->group > 1 && gives(v, i, SB_ATOM_EMPTY_AS_ZERO))
            t.groups++;
        else if (model && gives(v, i, SB_ATOM_PLUS_ZERO))
            t.signs++;
        else if (t.unexplained++ == 0)
            t.first = i;
    return t;
}

/* --- all sets of the file --------------------------------------------------------------------- */

typedef void with(const atom_vectors *v, void *ctx);

static size_t each(with *what, void *ctx)
{
    sb_safetensors file;
    sb_error err;
    size_t sets = 0;
    if (sb_safetensors_open(path, &file, &err) != SB_OK)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < file.count; i++) {
        atom_vectors v;
        const int found = atom_vectors_at(&file, i, &v);
        if (found < 0)
            fail_msg("%s: %s does not fit the others", path, file.tensors[i].name);
        if (!found)
            continue;
        sets++;
        what(&v, ctx);
    }
    sb_safetensors_close(&file);
    return sets;
}

static void hold(const atom_vectors *v, void *ctx)
{
    const tally t = judge(v);
    *(size_t *)ctx += v->count;
    if (t.unexplained)
        fail_msg("%s, %s, %s: %zu of %zu differ, first vector %zu: %08" PRIx32 ", not %08" PRIx32,
                 v->row->name, v->source, v->type, t.unexplained, v->count, t.first,
                 atom_vectors_got(v, v->row, t.first), atom_vectors_want(v, t.first));
}

TEST(test_every_bit)
{
    size_t vectors = 0, sets = each(hold, &vectors);
    assert_true(sets >= 10 && vectors >= 1000 * sets);
}

/* Sums of the other model show every change, except that sums in f16 (other than Ada's) hide F. */
static void perturb_simulated(const atom_vectors *v)
{
    const size_t equal = differences(v, v->row);
    sb_atom other[4] = {changed(v->row, FINER), changed(v->row, COARSER), changed(v->row, HALVED),
                        *v->row};
    other[3].zero = -126; /* H-2 */
    for (int i = v->row->sums == SB_ATOM_F16 && v->row->fraction != 13 ? 2 : 0; i < 4; i++) {
        const int seen = differences(v, &other[i]) > equal;
        const int tiny = v->format == SB_FORMAT_bf16 || strcmp(v->row->name, "sm120_mxf8") == 0;
        if (i == 3 ? tiny && !seen : !seen)
            fail_msg("%s, %s, %s: change %d is not seen", v->row->name, v->source, v->type, i);
    }
}

static void perturb(const atom_vectors *v, void *ctx)
{
    *(size_t *)ctx |= (size_t)1 << (v->row - sb_atoms);
    if (strcmp(v->source, "mmasim") == 0)
        perturb_simulated(v);
    for (change which = 0; which < CHANGES && strcmp(v->source, "mmasim") != 0; which++) {
        const sb_atom other = changed(v->row, which);
        const size_t count = differences(v, &other);
        if (tells(v, which) && count == 0)
            fail_msg("%s, %s, %s: change %d is not seen", v->row->name, v->source, v->type,
                     (int)which);
        if (v->row->addend == SB_ATOM_LAST && v->row->sums == SB_ATOM_F32 && count)
            fail_msg("%s, %s: docs/atoms.md says that nothing tells change %d", v->row->name,
                     v->source, (int)which);
    }
}

/* A changed row gives other bits; and exactly the MEASURED rows have vectors. */
TEST(test_other_rows)
{
    size_t rows = 0;
    each(perturb, &rows);
    for (int id = 0; id < SB_ATOM_COUNT && strstr(path, "published"); id++)
        if ((sb_atoms[id].evidence == SB_ATOM_MEASURED) != (rows >> id & 1))
            fail_msg("%s: docs/atoms.md calls it measured, or the file has vectors of it",
                     sb_atoms[id].name);
}

/* --- the lines of docs/atoms.md --------------------------------------------------------------- */

static void line(const atom_vectors *v, void *ctx)
{
    const tally t = judge(v);
    (void)ctx;
    if (strcmp(v->source, "mmasim") == 0) {
        printf("| `%s` | %s | %zu | %zu | %zu | %zu | %zu |\n", v->row->name, v->type, v->count,
               t.equal, t.groups, t.signs, t.unexplained);
        return;
    }
    printf("| `%s` | %s | %s | %zu | %zu |", v->row->name, v->source, v->type, v->count,
           v->count - t.equal);
    for (change which = 0; which < CHANGES; which++) {
        const sb_atom other = changed(v->row, which);
        if (which == REORDERED && !has_order(v))
            printf(" - |");
        else
            printf(" %zu |", differences(v, &other));
    }
    printf("\n");
}

static int other_file(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--table") == 0) {
        path = argv[2];
        return each(line, NULL) == 0;
    }
    if (argc != 2)
        return 2;
    path = argv[1];
    return SUITE_RUNS;
}
TEST_ARGS(other_file)

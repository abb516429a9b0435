/* arithmetic.c - the arithmetics by name, and the error bound of truncating accumulators. */
#include "tools/judge/bound/ball.h"

#include <inttypes.h>
#include <string.h>

#include "tools/judge/bound/wide_fn.h"

const sb_arithmetic sb_arithmetic_reference = {.name = "reference",
                                               .any_order = 0,
                                               .functions = &sb_functions_table[SB_FUNCTIONS_exact],
                                               .underflow = 0x1p-150};
const sb_arithmetic sb_arithmetic_library = {.name = "library",
                                             .any_order = 1,
                                             .functions = &sb_functions_table[SB_FUNCTIONS_any],
                                             .underflow = 0x1p-126};
/* T-52: a program with all matrix units of SM120. */
static const sb_arithmetic sm120 = {.name = "sm120",
                                    .any_order = 1,
                                    .functions = &sb_functions_table[SB_FUNCTIONS_any],
                                    .underflow = 0x1p-126,
                                    .atom = &sb_atoms[SB_ATOM_sm120_f16],
                                    .fp8 = &sb_atoms[SB_ATOM_sm120_fp8],
                                    .fp4 = &sb_atoms[SB_ATOM_sm120_nvfp4]};

#define SB_ROW(text, id, ordered)                                                                  \
    {.name = text,                                                                                 \
     .any_order = 1,                                                                               \
     .functions = &sb_functions_table[SB_FUNCTIONS_any],                                           \
     .underflow = 0x1p-126,                                                                        \
     .atom = &sb_atoms[SB_ATOM_##id],                                                              \
     .in_order = ordered},

static const sb_arithmetic units[] = {
#define SB_ATOM(id, ...) SB_ROW(#id, id, 0) SB_ROW(#id "+order", id, 1)
#include "ref/formats/atoms.def"
#undef SB_ATOM
};

enum { UNITS = sizeof units / sizeof *units };

/* False for groups, whose exponents come from scales that a reduction does not see, and for sums in
 * f16, which overflow (T-50). */
static int has_bound(const sb_atom *atom)
{
    return atom->group == 1 && atom->sums == SB_ATOM_F32;
}

/* T-87: copies of the library with other lengths of a chunk. */
#define SB_CHUNKED(rows)                                                                           \
    {                                                                                              \
        .name = "library@" #rows, .any_order = 1,                                                  \
        .functions = &sb_functions_table[SB_FUNCTIONS_any], .underflow = 0x1p-126, .chunk = (rows) \
    }

static const sb_arithmetic chunked[] = {SB_CHUNKED(16), SB_CHUNKED(32), SB_CHUNKED(128),
                                        SB_CHUNKED(256), SB_CHUNKED(512)};

/* First the arithmetics of the table, then the rows of atoms.def that have a bound. */
const sb_arithmetic *sb_arithmetic_at(size_t i)
{
    static const sb_arithmetic *const first[] = {&sb_arithmetic_reference,
                                                 &sb_arithmetic_library,
                                                 &sm120,
                                                 &chunked[0],
                                                 &chunked[1],
                                                 &chunked[2],
                                                 &chunked[3],
                                                 &chunked[4]};
    const size_t before = sizeof first / sizeof *first;
    if (i < before)
        return first[i];
    for (size_t u = 0, seen = before; u < UNITS; u++)
        if (has_bound(units[u].atom) && seen++ == i)
            return &units[u];
    return NULL;
}

size_t sb_arithmetic_count(void)
{
    size_t count = 0;
    while (sb_arithmetic_at(count))
        count++;
    return count;
}

const sb_arithmetic *sb_arithmetic_of(const char *name)
{
    for (size_t i = 0; sb_arithmetic_at(i); i++)
        if (strcmp(sb_arithmetic_at(i)->name, name) == 0)
            return sb_arithmetic_at(i);
    return NULL;
}

/* Copies of the library with the functions of each row of functions.def. */
static const sb_arithmetic vectors[] = {
#define SB_FUNCTIONS(id, ...)                                                                      \
    {.name = "library",                                                                            \
     .any_order = 1,                                                                               \
     .functions = &sb_functions_table[SB_FUNCTIONS_##id],                                          \
     .underflow = 0x1p-126},
#include "tools/judge/sim/functions.def"
#undef SB_FUNCTIONS
};

const sb_arithmetic *sb_arithmetic_vector(const sb_arithmetic *ar)
{
    return ar->atom ? &vectors[ar->functions - sb_functions_table] : ar;
}

int sb_chunk_is_bounded(uint64_t rows)
{
    return rows >= SB_CHUNK_SHORTEST && rows <= SB_CHUNK_LONGEST && (rows & (rows - 1)) == 0;
}

size_t sb_arithmetic_chunk(const sb_arithmetic *ar)
{
    return ar->chunk ? ar->chunk : SB_CHUNK_USUAL;
}

sb_status sb_arithmetic_with(const sb_arithmetic *ar, const char *functions, uint64_t chunk,
                             sb_arithmetic *own, sb_error *err)
{
    *own = *ar;
    if (chunk && !sb_chunk_is_bounded(chunk))
        return sb_fail(err, SB_ERR_USAGE,
                       "no bound is known for delta rule chunks of %" PRIu64
                       " rows; expected a power of two from 16 to 512",
                       chunk);
    if (chunk)
        own->chunk = (unsigned)chunk;
    return functions ? sb_functions_find(functions, &own->functions, err) : SB_OK;
}

/* 2^-n */
static double half_to(int n)
{
    double x = 1.0;
    while (n-- > 0)
        x /= 2;
    return x;
}

/* 2^e for the least exponent e of the operands' format. Alignment treats a smaller operand as if it
 * were this large. */
static double least_of(const sb_atom *atom)
{
    return atom->form == SB_ATOM_HALF ? 0x1p-14 : 0x1p-6;
}

/* T-50: "rho = q (c + k) + s u. Then the result lies within rho t / (1 - rho) + q 2^-126 of the
 * sum", for rho below 1. For a larger rho there is no bound. */
double sb_atom_error(const sb_arithmetic *ar, const sb_reduction *r)
{
    const sb_atom *atom = ar->atom;
    double least = least_of(atom), floor = least * sb_larger(sb_larger(r->a, r->b), least);
    double chained = (double)((r->n + atom->terms - 1) / atom->terms);
    double blocks = chained * (double)(atom->terms / atom->block);
    double cut = (double)(atom->block + 1) * half_to(atom->fraction) + half_to(atom->kept);
    double rounded = (ar->in_order ? 0.0 : 15.0) + (atom->addend == SB_ATOM_LAST ? chained : 0.0);
    double rho = blocks * cut + rounded * SB_UNIT;
    double reached = ar->in_order ? 2.0 * r->peak + r->spread : r->magnitude;
    double t = sb_larger(sb_larger(r->largest, floor), reached);
    return rho < 1.0 ? rho * t / (1.0 - rho) + blocks * 0x1p-126 : SB_BALL_ANYTHING;
}

/* plant_bytes.c - plants that damage ranges of bytes, as disks and downloads do, and side files. */
#include "tests/lib/cmocka.h"

#include <string.h>

#include "ref/base/rng.h"
#include "tests/check/plant.h"

static const char *file_of(const plant_words *w)
{
    return strcmp(w->word[1], "-") == 0 ? NULL : w->word[1];
}

static uint64_t number(const plant_words *w, unsigned at)
{
    return plant_number(w->word[at]);
}

/* --- the written file, absolute offsets; "-" is the first file of tensors --------------------- */

static void file_zero(folder *f, const plant_words *w) /* FILE AT COUNT */
{
    folder_damage_zero(f, file_of(w), number(w, 2), number(w, 3));
}

static void file_copy(folder *f, const plant_words *w) /* FILE FROM TO COUNT */
{
    folder_damage_copy(f, file_of(w), number(w, 2), number(w, 3), number(w, 4));
}

static void file_shift(folder *f, const plant_words *w) /* FILE AT COUNT */
{
    folder_damage_shift(f, file_of(w), number(w, 2), number(w, 3));
}

static void file_random(folder *f, const plant_words *w) /* FILE AT COUNT SEED */
{
    folder_damage_random(f, file_of(w), number(w, 2), number(w, 3), number(w, 4));
}

/* --- the bytes of one tensor ------------------------------------------------------------------ */

static unsigned char *range(folder_tensor *t, uint64_t at, uint64_t count)
{
    assert_true(count <= t->size && at <= t->size - count);
    return t->bytes + at;
}

static void zero_bytes(folder *f, const plant_words *w) /* NAME AT COUNT */
{
    memset(range(plant_tensor(f, w), number(w, 2), number(w, 3)), 0, number(w, 3));
}

static void copy_bytes(folder *f, const plant_words *w) /* NAME FROM TO COUNT */
{
    folder_tensor *t = plant_tensor(f, w);
    memmove(range(t, number(w, 3), number(w, 4)), range(t, number(w, 2), number(w, 4)),
            number(w, 4));
}

static void random_bytes(folder *f, const plant_words *w) /* NAME AT COUNT SEED */
{
    unsigned char *bytes = range(plant_tensor(f, w), number(w, 2), number(w, 3));
    for (uint64_t i = 0; i < number(w, 3); i++)
        bytes[i] = (unsigned char)sb_rng_u64(number(w, 4), i);
}

/* Zeroes COUNT bytes from AT in every row of the last dimension. */
static void zero_columns(folder *f, const plant_words *w) /* NAME AT COUNT */
{
    folder_tensor *t = plant_tensor(f, w);
    uint64_t values = 1;
    for (unsigned d = 0; d + 1 < t->rank; d++)
        values *= t->shape[d];
    uint64_t row = t->size / values;
    assert_true(number(w, 2) + number(w, 3) <= row);
    for (uint64_t i = 0; i < values; i++)
        memset(t->bytes + i * row + number(w, 2), 0, number(w, 3));
}

/* --- side files ------------------------------------------------------------------------------- */

static void put(folder *f, const plant_words *w) /* FILE TEXT */
{
    folder_put(f, w->word[1], w->rest[2], strlen(w->rest[2]));
}

static void cut_file(folder *f, const plant_words *w) /* FILE BYTES that are left */
{
    folder_file *file = folder_text(f, w->word[1]);
    assert_non_null(file);
    assert_true(number(w, 2) < file->size);
    file->size = (size_t)number(w, 2);
}

static void replace(folder *f, const plant_words *w) /* FILE OLD NEW */
{
    folder_replace(f, w->word[1], w->word[2], w->rest[3]);
}

const plant_command plant_byte_commands[] = {
    {"file-zero", 3, file_zero},
    {"file-copy", 4, file_copy},
    {"file-shift", 3, file_shift},
    {"file-random", 4, file_random},
    {"zero-bytes", 3, zero_bytes},
    {"copy-bytes", 4, copy_bytes},
    {"random-bytes", 4, random_bytes},
    {"zero-columns", 3, zero_columns},
    {"put", 2, put},
    {"cut-file", 2, cut_file},
    {"replace", 3, replace},
    {NULL, 0, NULL},
};

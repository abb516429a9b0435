/* test_zero_runs.c - the runs of zeros found do not depend on how the bytes are cut into slices. A
 * run counts only if its ends are ends of pages or of the tensor. */
#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/rng.h"
#include "tools/check/read/zero_runs.h"

enum { ROWS = 256, COLS = 384, BYTES = 2 * ROWS * COLS };

static unsigned char bytes[BYTES];

static const sb_tensor matrix = {
    .dtype = SB_DTYPE_BF16, .rank = 2, .shape = {ROWS, COLS}, .bytes = BYTES};

static void fill(void)
{
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)(1 + i * 2654435761u % 255);
}

/* The list of runs, from slices of at most `most` bytes; NULL if there are none. */
static sb_zero_list *look(const sb_tensor *t, uint64_t offset, size_t most)
{
    sb_zero_scan scan;
    sb_zero_list *list = NULL;
    sb_zero_begin(&scan, &list, t, offset);
    for (size_t at = 0, k = 0; at < t->bytes; k++) {
        size_t n = 1 + (size_t)(sb_rng_uniform(7, k) * (float)most);
        n = n < t->bytes - at ? n : (size_t)t->bytes - at;
        sb_zero_bytes(&scan, bytes + at, n);
        at += n;
    }
    assert_false(scan.lost);
    return list;
}

/* Writes zeros from `first` to `end` of the file. Returns the number of runs that count. Asserts
 * that it is the same for all sizes of slices. */
static uint64_t count_of(const sb_tensor *t, uint64_t offset, uint64_t first, uint64_t end)
{
    static const size_t slices[] = {1, 100, 5000, 70000, BYTES};
    uint64_t count = 0;
    fill();
    memset(bytes + (first - offset), 0, (size_t)(end - first));
    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++) {
        sb_zero_list *list = look(t, offset, slices[i]);
        if (i)
            assert_int_equal(list ? list->count : 0, count);
        count = list ? list->count : 0;
        if (count) {
            assert_int_equal(list->runs[0].first, first);
            assert_int_equal(list->runs[0].end, end);
        }
        free(list);
    }
    return count;
}

TEST(test_pages)
{
    enum { AT = 1000 };
    assert_int_equal(count_of(&matrix, AT, 8192, 12288), 1);
    assert_int_equal(count_of(&matrix, AT, 8190, 12293), 1); /* stray zeros beside it */
    assert_int_equal(count_of(&matrix, AT, 8192, 8192 + 16 * 4096), 1);
    assert_int_equal(count_of(&matrix, AT, AT, 8192), 1);              /* from the beginning */
    assert_int_equal(count_of(&matrix, AT, 40 * 4096, AT + BYTES), 1); /* to the end */
    assert_int_equal(count_of(&matrix, AT, 8192, 12000), 0);           /* no whole page */
    assert_int_equal(count_of(&matrix, AT, 8192, 13000), 0);           /* ends elsewhere */
    assert_int_equal(count_of(&matrix, AT, 8100, 12288), 0);           /* begins elsewhere */
    assert_int_equal(count_of(&matrix, AT, AT, AT + BYTES), 0);        /* all of it */
    assert_int_equal(count_of(&matrix, AT, AT + 7680, AT + 15360), 0); /* whole rows */
    assert_int_equal(count_of(&matrix, 4096, 4096 + 12288, 4096 + 24576), 0); /* at pages, too */
    assert_int_equal(count_of(&matrix, 4096, 8192, 12288), 1);
}

/* Zeros in a half, a third or a quarter of a vector do not count. */
TEST(test_vectors)
{
    sb_tensor vector = {.dtype = SB_DTYPE_F32, .rank = 1, .shape = {3072}, .bytes = 12288};
    assert_int_equal(count_of(&vector, 4096, 8192, 12288), 0); /* the keys' part of a bias */
    assert_int_equal(count_of(&vector, 5000, 8192, 12288), 1);
    vector.dtype = SB_DTYPE_I32;
    assert_int_equal(count_of(&vector, 5000, 8192, 12288), 0);
}

/* More runs than are kept. */
TEST(test_many)
{
    fill();
    for (uint64_t page = 1; page < 41; page += 2)
        memset(bytes + page * 4096 - 1000, 0, 4096);
    sb_zero_list *list = look(&matrix, 1000, 3000);
    assert_non_null(list);
    assert_int_equal(list->count, 20);
    assert_int_equal(list->runs[SB_ZERO_RUNS - 1].first, (2 * SB_ZERO_RUNS - 1) * 4096);
    free(list);
}

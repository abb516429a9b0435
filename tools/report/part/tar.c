#include "tools/report/part/tar.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/show.h"

enum {
    TAR_BLOCK = 512,
    TAR_NAME = 100,
    TAR_SIZE = 124, /* offsets of the fields */
    TAR_SUM = 148,
    TAR_MAGIC = 257,
    TAR_DIGITS = 11, /* octal digits of a size */
    TAR_SUM_DIGITS = 6
};

static size_t padded(size_t count)
{
    return (count + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
}

/* The sum of a header's bytes, with its own field read as blanks. */
static unsigned sum_of(const unsigned char *head)
{
    unsigned sum = 0;
    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += i >= TAR_SUM && i < TAR_SUM + 8 ? ' ' : head[i];
    return sum;
}

/* O-4: "mode 0644, owner and time 0", so that the same reports give the same archive. */
static void make_head(const sb_tar_member *m, unsigned char *head)
{
    char *text = (char *)head;
    memset(head, 0, TAR_BLOCK);
    memcpy(text, m->name, strnlen(m->name, TAR_NAME));
    snprintf(text + 100, 8, "%07o", 0644u);
    snprintf(text + 108, 8, "%07o", 0u);
    snprintf(text + 116, 8, "%07o", 0u);
    snprintf(text + TAR_SIZE, TAR_DIGITS + 1, "%011llo", (unsigned long long)m->count);
    snprintf(text + 136, 12, "%011o", 0u);
    text[156] = '0'; /* a regular file */
    memcpy(text + TAR_MAGIC,
           "ustar\0"
           "00",
           8);
    snprintf(text + TAR_SUM, 8, "%06o", sum_of(head) & 0777777);
    text[TAR_SUM + 7] = ' ';
}

sb_status sb_tar_write(const char *path, const sb_tar_member *members, size_t count, sb_error *err)
{
    size_t size = 2 * TAR_BLOCK, at = 0; /* two empty blocks at the end */
    for (size_t i = 0; i < count; i++)
        size += TAR_BLOCK + padded(members[i].count);
    unsigned char *bytes = sb_alloc(size, 1);
    if (!bytes)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for %zu bytes", SB_SHOW(path), size);
    for (size_t i = 0; i < count; i++) {
        make_head(&members[i], bytes + at);
        memcpy(bytes + at + TAR_BLOCK, members[i].bytes, members[i].count);
        at += TAR_BLOCK + padded(members[i].count);
    }
    sb_status status = sb_write_file(path, bytes, size, err);
    free(bytes);
    return status;
}

int sb_tar_is(const unsigned char *bytes, size_t count)
{
    return count >= TAR_BLOCK && memcmp(bytes + TAR_MAGIC, "ustar", 5) == 0;
}

/* Reads octal digits up to a blank or NUL; SIZE_MAX for anything else. */
static size_t octal(const unsigned char *text, size_t digits)
{
    size_t value = 0, i = 0;
    for (; i < digits && text[i] >= '0' && text[i] <= '7'; i++)
        value = 8 * value + (size_t)(text[i] - '0');
    return i == 0 || (i < digits && text[i] != ' ' && text[i] != '\0') ? SIZE_MAX : value;
}

/* The size of the member with this header; SIZE_MAX if the header is damaged. */
static size_t size_at(const unsigned char *head, size_t rest)
{
    size_t size = octal(head + TAR_SIZE, TAR_DIGITS);
    if (!sb_tar_is(head, rest) || octal(head + TAR_SUM, TAR_SUM_DIGITS) != sum_of(head) ||
        size > rest - TAR_BLOCK)
        return SIZE_MAX;
    return size;
}

static size_t step_over(size_t size, size_t rest)
{
    size_t step = TAR_BLOCK + padded(size);
    return step < rest ? step : rest;
}

sb_status sb_tar_find(const unsigned char *bytes, size_t count, const char *file, const char *name,
                      sb_tar_member *out, sb_error *err)
{
    size_t at = 0;
    while (count - at >= TAR_BLOCK && bytes[at] != 0) {
        size_t size = size_at(bytes + at, count - at);
        if (size == SIZE_MAX)
            return sb_fail(err, SB_ERR_INPUT, "%s: byte %zu: the header of the pack is damaged",
                           SB_SHOW(file), at);
        if (strncmp((const char *)bytes + at, name, TAR_NAME) == 0) {
            *out = (sb_tar_member){name, bytes + at + TAR_BLOCK, size};
            return SB_OK;
        }
        at += step_over(size, count - at);
    }
    return sb_fail(err, SB_ERR_INPUT, "%s: the pack has no %s", SB_SHOW(file), name);
}

void sb_tar_names(const unsigned char *bytes, size_t count, char *text, size_t room)
{
    size_t at = 0, used = 0;
    text[0] = '\0';
    while (count - at >= TAR_BLOCK && bytes[at] != 0) {
        size_t size = size_at(bytes + at, count - at);
        if (size == SIZE_MAX || used >= room)
            return;
        int n = snprintf(text + used, room - used, "%s%.*s", at ? ", " : "", TAR_NAME,
                         (const char *)bytes + at);
        used += n > 0 ? (size_t)n : room;
        at += step_over(size, count - at);
    }
}

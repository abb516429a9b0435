/* zip.c - minizip on bytes in memory, and the checks that it does not make. */
#include "tools/dump/zip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <minizip/unzip.h>
#include <zlib.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"

typedef struct member {
    char *name;
    uint64_t at, packed, size; /* at: place of the data in the archive */
    uint32_t crc;
    int is_stored, is_checked;
    unz64_file_pos entry;
    unsigned char *unpacked;
} member;

struct sb_zip {
    const unsigned char *bytes;
    size_t size, at; /* at: the library's read position */
    const char *file;
    unzFile unz;
    member *members;
    size_t count;
};

/* --- the library's file ----------------------------------------------------------------------- */

static voidpf open_bytes(voidpf opaque, const void *name, int mode)
{
    (void)name;
    (void)mode;
    return opaque;
}

static uLong read_bytes(voidpf opaque, voidpf stream, void *out, uLong count)
{
    sb_zip *z = stream;
    uLong left = (uLong)(z->size - z->at), n = count < left ? count : left;
    (void)opaque;
    memcpy(out, z->bytes + z->at, n);
    z->at += n;
    return n;
}

static uLong write_bytes(voidpf opaque, voidpf stream, const void *bytes, uLong count)
{
    (void)opaque;
    (void)stream;
    (void)bytes;
    (void)count;
    return 0;
}

static ZPOS64_T tell_bytes(voidpf opaque, voidpf stream)
{
    (void)opaque;
    return ((sb_zip *)stream)->at;
}

static long seek_bytes(voidpf opaque, voidpf stream, ZPOS64_T offset, int origin)
{
    sb_zip *z = stream;
    size_t base = origin == ZLIB_FILEFUNC_SEEK_SET   ? 0
                  : origin == ZLIB_FILEFUNC_SEEK_CUR ? z->at
                                                     : z->size;
    (void)opaque;
    if (offset > z->size - base)
        return -1;
    z->at = base + (size_t)offset;
    return 0;
}

static int close_bytes(voidpf opaque, voidpf stream)
{
    (void)opaque;
    (void)stream;
    return 0;
}

/* --- one entry of the directory --------------------------------------------------------------- */

static sb_status refuse(const sb_zip *z, const char *name, const char *what, sb_error *err)
{
    if (!name)
        return sb_fail(err, SB_ERR_INPUT, "%s: %s", SB_SHOW(z->file), what);
    return sb_fail(err, SB_ERR_INPUT, "%s: member \"%s\" %s", SB_SHOW(z->file), SB_SHOW(name),
                   what);
}

/* J-15: "stored or deflated, and not encrypted" */
static sb_status check_info(const sb_zip *z, const unz_file_info64 *info, const char *name,
                            sb_error *err)
{
    if (info->size_filename == 0 || info->size_filename > SB_ZIP_MAX_NAME ||
        strlen(name) != info->size_filename)
        return refuse(z, NULL, "a member has an empty name, a long one, or one with a zero byte",
                      err);
    if (info->flag & 1)
        return refuse(z, name, "is encrypted", err);
    if (info->compression_method != 0 && info->compression_method != Z_DEFLATED)
        return refuse(z, name, "uses a compression method other than deflate", err);
    if (info->compression_method == 0 && info->compressed_size != info->uncompressed_size)
        return refuse(z, name, "is stored uncompressed but has two different sizes", err);
    /* deflate expands one byte to at most 1032 */
    if (info->uncompressed_size / 1032 > info->compressed_size)
        return refuse(z, name, "declares a larger unpacked size than deflate can produce from it",
                      err);
    return SB_OK;
}

static sb_status read_entry(sb_zip *z, member *m, sb_error *err)
{
    char name[SB_ZIP_MAX_NAME + 1] = "";
    unz_file_info64 info;
    if (unzGetCurrentFileInfo64(z->unz, &info, name, sizeof name, NULL, 0, NULL, 0) != UNZ_OK ||
        unzGetFilePos64(z->unz, &m->entry) != UNZ_OK)
        return refuse(z, NULL, "its directory is damaged", err);
    name[SB_ZIP_MAX_NAME] = '\0';
    sb_status status = check_info(z, &info, name, err);
    if (status)
        return status;
    if (unzOpenCurrentFile(z->unz) != UNZ_OK)
        return refuse(z, name,
                      "is missing at the offset in the directory, or another member is there", err);
    m->at = unzGetCurrentFileZStreamPos64(z->unz);
    unzCloseCurrentFile(z->unz); /* the checksum does not matter: nothing was read */
    m->packed = info.compressed_size;
    m->size = info.uncompressed_size;
    m->crc = (uint32_t)info.crc;
    m->is_stored = info.compression_method == 0;
    if (m->at > z->size || m->packed > z->size - m->at || m->size > SIZE_MAX / 2)
        return refuse(z, name, "reaches beyond the end of the archive", err);
    m->name = sb_strdup(name);
    return m->name ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(z->file));
}

/* --- the directory ---------------------------------------------------------------------------- */

static int by_name(const void *left, const void *right)
{
    return strcmp(((const member *)left)->name, ((const member *)right)->name);
}

static int by_place(const void *left, const void *right)
{
    const member *a = left, *b = right;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* J-15: "No two share a byte or a name" - so a small archive cannot contain one block a thousand
 * times. */
static sb_status check_apart(sb_zip *z, sb_error *err)
{
    qsort(z->members, z->count, sizeof *z->members, by_place);
    for (size_t i = 1; i < z->count; i++)
        if (z->members[i - 1].at + z->members[i - 1].packed > z->members[i].at)
            return refuse(z, z->members[i].name, "overlaps another member", err);
    qsort(z->members, z->count, sizeof *z->members, by_name);
    for (size_t i = 1; i < z->count; i++)
        if (strcmp(z->members[i - 1].name, z->members[i].name) == 0)
            return refuse(z, z->members[i].name, "occurs twice", err);
    return SB_OK;
}

/* J-15: "at most 8 times the archive" - checked before anything is unpacked */
static sb_status check_unpacked(const sb_zip *z, sb_error *err)
{
    uint64_t all = 0, most = (uint64_t)z->size * SB_ZIP_TIMES + SB_ZIP_MORE;
    for (size_t i = 0; i < z->count; i++) {
        const member *m = &z->members[i];
        if (!m->is_stored && m->size > most - all)
            return refuse(z, m->name,
                          "unpacks, together with the others, to more than 8 times the size of the "
                          "archive: expected it without compression",
                          err);
        all += m->is_stored ? 0 : m->size;
    }
    return SB_OK;
}

/* J-15: "begins with a member and ends with its directory" */
static sb_status check_ends(const sb_zip *z, sb_error *err)
{
    unz_global_info64 info = {0, 0};
    if (z->size < 22 || memcmp(z->bytes, "PK\x03\x04", 4) != 0)
        return refuse(z, NULL, "does not begin like a ZIP archive with a member", err);
    if (memcmp(z->bytes + z->size - 22, "PK\x05\x06", 4) != 0)
        return refuse(z, NULL, "does not end with a ZIP directory", err);
    if (!z->unz || unzGetGlobalInfo64(z->unz, &info) != UNZ_OK || info.size_comment != 0)
        return refuse(z, NULL, "its directory is damaged", err);
    if (info.number_entry == 0 || info.number_entry > SB_ZIP_MAX_MEMBERS)
        return refuse(z, NULL, "has no members, or more than 131072", err);
    return SB_OK;
}

static sb_status read_directory(sb_zip *z, sb_error *err)
{
    unz_global_info64 info = {0, 0};
    sb_status status = check_ends(z, err);
    if (status)
        return status;
    unzGetGlobalInfo64(z->unz, &info);
    z->members = sb_alloc((size_t)info.number_entry, sizeof *z->members);
    if (!z->members)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(z->file));
    int at = unzGoToFirstFile(z->unz);
    while (!status && at == UNZ_OK && z->count < info.number_entry) {
        status = read_entry(z, &z->members[z->count++], err);
        at = unzGoToNextFile(z->unz);
    }
    if (!status && (at != UNZ_END_OF_LIST_OF_FILE || z->count != info.number_entry))
        status =
            refuse(z, NULL,
                   "the number of members in its directory differs from the declared number", err);
    if (!status)
        status = check_apart(z, err);
    return status ? status : check_unpacked(z, err);
}

sb_status sb_zip_open(const unsigned char *bytes, size_t size, const char *file, sb_zip **out,
                      sb_error *err)
{
    sb_zip *z = sb_alloc(1, sizeof *z);
    if (!z)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(file));
    *z = (sb_zip){.bytes = bytes, .size = size, .file = file};
    zlib_filefunc64_def functions = {open_bytes,
                                     read_bytes,
                                     write_bytes,
                                     tell_bytes,
                                     seek_bytes,
                                     close_bytes,
                                     close_bytes /* zerror: no error */,
                                     z};
    z->unz = unzOpen2_64("", &functions);
    sb_status status = read_directory(z, err);
    if (status)
        sb_zip_close(z);
    else
        *out = z;
    return status;
}

void sb_zip_close(void *zip)
{
    sb_zip *z = zip;
    if (!z)
        return;
    if (z->unz)
        unzClose(z->unz);
    for (size_t i = 0; i < z->count; i++) {
        free(z->members[i].name);
        free(z->members[i].unpacked);
    }
    free(z->members);
    free(z);
}

size_t sb_zip_count(const sb_zip *zip)
{
    return zip->count;
}

const char *sb_zip_name(const sb_zip *zip, size_t i)
{
    return zip->members[i].name;
}

int sb_zip_find(const sb_zip *zip, const char *name, size_t *out)
{
    size_t low = 0, high = zip->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(zip->members[middle].name, name);
        if (order == 0) {
            *out = middle;
            return 1;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

/* --- members ---------------------------------------------------------------------------------- */

enum { ZIP_PART = 1 << 24 }; /* the library counts with int */

static int is_intact(const sb_zip *z, const member *m)
{
    uLong crc = crc32(0, NULL, 0);
    for (uint64_t done = 0; done < m->size; done += ZIP_PART) {
        uint64_t left = m->size - done;
        crc = crc32(crc, z->bytes + m->at + done, (uInt)(left < ZIP_PART ? left : ZIP_PART));
    }
    return crc == m->crc;
}

/* Reads the whole member; the library checks the checksum when it closes the member. */
static int inflate_all(sb_zip *z, member *m)
{
    unsigned char beyond;
    int good =
        unzGoToFilePos64(z->unz, &m->entry) == UNZ_OK && unzOpenCurrentFile(z->unz) == UNZ_OK;
    if (!good)
        return 0;
    for (uint64_t done = 0; done < m->size && good;) {
        uint64_t left = m->size - done;
        int n = unzReadCurrentFile(z->unz, m->unpacked + done,
                                   (unsigned)(left < ZIP_PART ? left : ZIP_PART));
        good = n > 0;
        done += good ? (uint64_t)n : 0;
    }
    good = good && unzReadCurrentFile(z->unz, &beyond, 1) == 0;
    return (unzCloseCurrentFile(z->unz) == UNZ_OK) && good;
}

static sb_status unpack(sb_zip *z, member *m, sb_error *err)
{
    m->unpacked = sb_alloc((size_t)m->size, 1);
    if (!m->unpacked)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(z->file));
    return inflate_all(z, m) ? SB_OK
                             : refuse(z, m->name, "does not unpack to its declared size", err);
}

sb_status sb_zip_read(sb_zip *z, size_t i, const unsigned char **bytes, size_t *size, sb_error *err)
{
    member *m = &z->members[i];
    sb_status status = SB_OK;
    if (!m->is_checked && !m->is_stored)
        status = unpack(z, m, err);
    else if (!m->is_checked && !is_intact(z, m))
        status = refuse(z, m->name, "does not match the checksum in the directory", err);
    if (status)
        return status;
    m->is_checked = 1;
    *bytes = m->is_stored ? z->bytes + m->at : m->unpacked;
    *size = (size_t)m->size;
    return SB_OK;
}

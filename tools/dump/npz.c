/* npz.c - an archive of NumPy arrays. */
#include "ref/base/text.h"
#include "ref/container/show.h"
#include "tools/dump/npy.h"
#include "tools/dump/store.h"
#include "tools/dump/zip.h"

/* True for an archive of NumPy: every member is an array. */
static int is_npz(const char *path)
{
    sb_map map;
    sb_zip *zip = NULL;
    int named = sb_ends(path, ".npz") && sb_dump_begins(path, "", 0);
    if (!sb_dump_begins(path, "PK\x03\x04", 4) || sb_map_open(path, &map, NULL))
        return named;
    int arrays = !sb_zip_open(map.data, map.size, path, &zip, NULL);
    for (size_t i = 0; arrays && i < sb_zip_count(zip); i++)
        arrays = sb_ends(sb_zip_name(zip, i), ".npy");
    sb_zip_close(zip);
    sb_map_close(&map);
    return arrays || named; /* opening a damaged one reports the error */
}

static sb_status add_members(sb_dump_store *s, sb_zip *zip, const char *file, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < sb_zip_count(zip) && !status; i++) {
        const char *name = sb_zip_name(zip, i);
        const unsigned char *bytes;
        size_t size;
        char stem[SB_ZIP_MAX_NAME + 1];
        size_t n = strlen(name);
        if (!sb_ends(name, ".npy"))
            return sb_fail(err, SB_ERR_INPUT, "%s: member \"%s\" is not an .npy file",
                           SB_SHOW(file), SB_SHOW(name));
        memcpy(stem, name, n - 4);
        stem[n - 4] = '\0';
        status = sb_zip_read(zip, i, &bytes, &size, err);
        if (!status)
            status = sb_npy_parse(bytes, size, file, stem, sb_dump_store_arrays(s), err);
    }
    return status;
}

static sb_status open_npz(const char *path, const sb_dump_options *options, sb_trace_head *head,
                          void **state, sb_error *err)
{
    sb_dump_store *s;
    const char *file = NULL;
    sb_map map;
    sb_zip *zip = NULL;
    sb_status status = sb_dump_store_new(&s, err);
    if (status)
        return status;
    status = sb_dump_store_path(s, NULL, path, &file, err);
    if (!status)
        status = sb_dump_store_map(s, file, &map, err);
    if (!status)
        status = sb_zip_open(map.data, map.size, file, &zip, err);
    if (!status)
        status = sb_dump_store_keep(s, zip, sb_zip_close, err);
    if (!status)
        status = add_members(s, zip, file, err);
    return sb_dump_store_ready(status, s, path, options, head, state, err);
}

extern const sb_dump_reader sb_dump_npz;
const sb_dump_reader sb_dump_npz = {"npz",
                                    "NumPy: an archive of arrays named as taps",
                                    is_npz,
                                    open_npz,
                                    sb_dump_store_play,
                                    sb_dump_store_close,
                                    1};

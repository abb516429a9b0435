/* npy_file.c - one NumPy file, or a folder of them. */
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "tools/dump/npy.h"
#include "tools/dump/store.h"
#include "tools/judge/trace/names.h"

static int is_npy(const char *path)
{
    return sb_dump_begins(path, "\x93NUMPY", 6) || sb_dump_has_only(path, ".npy");
}

static sb_status add_file(sb_dump_store *s, const char *dir, const char *file, const char *name,
                          sb_error *err)
{
    const char *path;
    sb_map map;
    sb_status status = sb_dump_store_path(s, dir, file, &path, err);
    if (!status)
        status = sb_dump_store_map(s, path, &map, err);
    return status ? status
                  : sb_npy_parse(map.data, map.size, path, name, sb_dump_store_arrays(s), err);
}

static sb_status add_folder(sb_dump_store *s, const char *dir, sb_error *err)
{
    sb_dump_names names;
    sb_dump_stem stem;
    sb_status status = sb_dump_list(dir, ".npy", &names, err);
    for (size_t i = 0; i < names.count && !status; i++)
        status =
            add_file(s, dir, names.items[i], sb_dump_stem_of(names.items[i], ".npy", &stem), err);
    sb_dump_names_free(&names);
    return status;
}

/* J-14: "A file alone is `logits`" unless its name says something else. */
static const char *name_of(const char *path, const sb_dump_options *o, sb_dump_stem *room)
{
    sb_tap_name tap;
    const char *stem = sb_dump_stem_of(path, ".npy", room);
    return o->map || sb_tap_find(stem, &tap) ? stem : "logits";
}

static sb_status open_npy(const char *path, const sb_dump_options *options, sb_trace_head *head,
                          void **state, sb_error *err)
{
    sb_dump_store *s;
    sb_dump_stem room;
    sb_status status = sb_dump_store_new(&s, err);
    if (status)
        return status;
    status = sb_is_folder(path) ? add_folder(s, path, err)
                                : add_file(s, NULL, path, name_of(path, options, &room), err);
    return sb_dump_store_ready(status, s, path, options, head, state, err);
}

extern const sb_dump_reader sb_dump_npy;
const sb_dump_reader sb_dump_npy = {
    "npy",
    "NumPy: one array of logits, or a folder of arrays named as taps",
    is_npy,
    open_npy,
    sb_dump_store_play,
    sb_dump_store_close,
    1};

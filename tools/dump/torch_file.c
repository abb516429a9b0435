/* torch_file.c - one file of torch.save: a tensor, or dictionaries of them. */
#include "ref/base/text.h"
#include "tools/dump/torch.h"
#include "tools/judge/trace/names.h"

static int is_torch(const char *path)
{
    return sb_torch_is(path);
}

/* J-17: "A tensor alone is named as an array alone (J-14)" */
static const char *name_of(const char *path, const sb_dump_options *o, sb_dump_stem *room)
{
    sb_tap_name tap;
    const char *stem = sb_dump_stem_of(path, sb_ends(path, ".pth") ? ".pth" : ".pt", room);
    return o->map || sb_tap_find(stem, &tap) ? stem : "logits";
}

static sb_status open_torch(const char *path, const sb_dump_options *options, sb_trace_head *head,
                            void **state, sb_error *err)
{
    sb_dump_store *s;
    sb_torch *torch = NULL;
    sb_dump_stem room;
    sb_status status = sb_dump_store_new(&s, err);
    if (status)
        return status;
    status = sb_torch_open(s, path, &torch, err);
    if (!status) {
        const sb_pickle_node *root = sb_torch_root(torch);
        int alone = root->kind == SB_PICKLE_CALL;
        status = sb_torch_add(torch, root, alone ? name_of(path, options, &room) : "", 0, s, err);
    }
    return sb_dump_store_ready(status, s, path, options, head, state, err);
}

extern const sb_dump_reader sb_dump_torch;
const sb_dump_reader sb_dump_torch = {"torch",
                                      "PyTorch: torch.save of tensors, read without executing it",
                                      is_torch,
                                      open_torch,
                                      sb_dump_store_play,
                                      sb_dump_store_close,
                                      1};

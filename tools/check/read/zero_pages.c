/* zero_pages.c - check 53: runs of zeros that begin and end at pages of the file. */
#include <inttypes.h>

#include "ref/container/show.h"
#include "tools/check/read/check.h"

/* 1 if both ends are at multiples of `size`, or at the ends of the tensor. */
static int at_both(const sb_zero_run *run, uint64_t offset, uint64_t first, uint64_t end,
                   uint64_t size)
{
    return (first == offset || first % size == 0) &&
           (end == offset + run->tensor->bytes || end % size == 0);
}

static const char *page_name(const sb_zero_run *run, uint64_t offset, uint64_t first, uint64_t end)
{
    if (at_both(run, offset, first, end, 1 << 20))
        return "1 MiB";
    return at_both(run, offset, first, end, 1 << 16) ? "64 KiB" : "4 KiB";
}

/* V-153: "If the file system keeps no bytes there, the message says that the file has a hole" */
static void tell(sb_check *check, const sb_zero_run *run, const char *more)
{
    const sb_checkpoint *c = check->self.checkpoint;
    const sb_tensor *t = run->tensor;
    uint64_t offset = sb_checkpoint_offset(c, t), first, end;
    sb_zero_pages_of(run, offset, &first, &end);
    uint64_t row = t->rank ? t->shape[t->rank - 1] * sb_dtype_bits(t->dtype) / 8 : t->bytes;
    row = row ? row : 1;
    sb_check_find(check, 53, SB_LEVEL_error, t->name,
                  "bytes %" PRIu64 " to %" PRIu64 " of %s are zero, from row %" PRIu64
                  " to row %" PRIu64 ", expected weights: the zeros begin and end at pages of %s "
                  "of the file, or with the tensor, but not with its rows%s%s",
                  first, end - 1, SB_SHOW(sb_checkpoint_shard_name(c, t->shard)),
                  (first - offset) / row, (end - 1 - offset) / row,
                  page_name(run, offset, first, end),
                  sb_source_hole(c, t->shard, first, end)
                      ? "; the file has a hole there, so nothing was written"
                      : "",
                  more);
}

void sb_check_zero_pages(sb_check *check)
{
    for (size_t i = 0; i < check->self.units.count; i++) {
        const sb_zero_list *list = check->self.units.rows[i].zeros;
        const sb_tensor *told = NULL;
        for (uint64_t k = 0; list && k < list->count && k < SB_ZERO_RUNS; k++) {
            const sb_zero_run *run = &list->runs[k];
            if (run->tensor != told) /* one finding per tensor */
                tell(check, run, list->count > 1 ? "; there is more than one such run" : "");
            told = run->tensor;
        }
    }
}

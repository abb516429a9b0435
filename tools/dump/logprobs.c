#include "tools/dump/logprobs.h"

#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"

const uint32_t *sb_dump_given_ids(const sb_dump_options *options, size_t sequence, size_t *count)
{
    size_t at = options->sequence_count == 1 ? 0 : sequence;
    *count = at < options->sequence_count ? options->id_count[at] : 0;
    return *count ? options->ids[at] : NULL;
}

sb_status sb_dump_check_ids(const sb_dump_options *options, size_t sequence, const uint32_t *ids,
                            size_t count, const char *where, sb_error *err)
{
    size_t given = 0;
    const uint32_t *own = sb_dump_given_ids(options, sequence, &given);
    for (size_t i = 0; i < count; i++)
        if (options->vocab_size && ids[i] >= options->vocab_size)
            return sb_fail(err, SB_ERR_INPUT, "%s: token %zu is %u; the vocabulary has %u",
                           SB_SHOW(where), i, (unsigned)ids[i], (unsigned)options->vocab_size);
    for (size_t i = 0; i < count && i < given; i++)
        if (ids[i] != own[i])
            return sb_fail(err, SB_ERR_INPUT,
                           "%s: token %zu is %u, but %u in --tokens or --tokens-file",
                           SB_SHOW(where), i, (unsigned)ids[i], (unsigned)own[i]);
    return SB_OK;
}

size_t sb_dump_rows_of_step(size_t width)
{
    size_t rows = SB_DUMP_STEP_BYTES / sizeof(float) / (width ? width : 1);
    return rows == 0 ? 1 : rows < 64 ? rows : rows / 64 * 64;
}

size_t sb_dump_next_rows(size_t left, size_t most)
{
    if (left <= most)
        return left;
    return left == most + 1 && most > 64 ? most - 64 : most;
}

sb_status sb_dump_add(sb_step *step, const char *name, size_t rows, size_t cols, float **data,
                      sb_error *err)
{
    sb_step_value *v = sb_step_add(&step->taps, name, rows, cols, 1);
    if (!v)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %s", name);
    *data = v->data;
    return SB_OK;
}

float sb_dump_f32(double x)
{
    const double most = 0x1.fffffep127;
    return (float)(x > most ? most : x < -most ? -most : x);
}

sb_status sb_dump_logits_rows(sb_step *step, size_t first, size_t count, sb_error *err)
{
    if (count == step->row_count)
        return SB_OK;
    step->logits_rows = sb_alloc(count, sizeof *step->logits_rows);
    if (!step->logits_rows)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for rows");
    for (size_t i = 0; i < count; i++)
        step->logits_rows[i] = first + i;
    step->logits_count = count;
    return SB_OK;
}

/* body_emu.cc - the emulator keeps no time, so marks are empty; memory for random weights. */
#include "gpu/meter/body.h"

#include <stdio.h>

sb_status sb_gpu_marks_open(sb_gpu *, size_t, sb_gpu_marks **out)
{
    *out = nullptr;
    return SB_OK;
}

void sb_gpu_marks_close(sb_gpu *, sb_gpu_marks *)
{
}

sb_status sb_gpu_mark(sb_gpu *, sb_gpu_marks *, size_t)
{
    return SB_OK;
}

sb_status sb_gpu_between(sb_gpu *, const sb_gpu_marks *, size_t, size_t, double *seconds)
{
    *seconds = 0;
    return SB_OK;
}

sb_status sb_gpu_card(sb_gpu *, sb_meter_card *card)
{
    *card = sb_meter_card();
    snprintf(card->name, sizeof card->name, "emulator");
    card->multiprocessors = 1;
    card->threads = 512;
    return SB_OK;
}

sb_status sb_gpu_drawn_open(sb_gpu *gpu, sb_gpu_piece *piece, const char *name, size_t bytes)
{
    piece->bytes = bytes;
    piece->at = sb_alloc(bytes, 1);
    if (!piece->at)
        return sb_fail(&gpu->err, SB_ERR_MEMORY, "out of memory for %s", name);
    return sb_emu_region_plain(&piece->region, name, piece->at, bytes, SB_EMU_OUTPUT, &gpu->err);
}

/* From now on the memory is an input, like packed weights. */
sb_status sb_gpu_drawn_close(sb_gpu *gpu, sb_gpu_piece *piece, const char *name, size_t bytes)
{
    const size_t unset = sb_emu_unset(&piece->region, 0);
    if (unset < piece->bytes)
        return sb_fail(&gpu->err, SB_ERR_DIFF, "byte %zu of %s was not drawn", unset, name);
    sb_emu_region_close(&piece->region);
    piece->bytes = bytes;
    return sb_emu_region_open(&piece->region, name, piece->at, bytes, SB_EMU_INPUT, &gpu->err);
}

sb_status sb_gpu_hold(sb_gpu *)
{
    return SB_OK;
}

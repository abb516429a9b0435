/* bench_folder.h - checkpoints of experts only, large enough for a measurement. */
#ifndef SB_BENCH_BENCH_FOLDER_H
#define SB_BENCH_BENCH_FOLDER_H

#include "ref/base/status.h"

typedef enum sb_bench_format {
    SB_BENCH_bf16,
    SB_BENCH_nvfp4,
    SB_BENCH_fp8,
    SB_BENCH_FORMATS
} sb_bench_format;

const char *sb_bench_format_name(sb_bench_format format);

/* Experts only, 4 * 10^8 weights, all drawn, because repeated rows give a check more work. A
 * quantized folder comes from a quantizer applied to the original, the folder of SB_BENCH_bf16. */
sb_status sb_bench_folder(const char *folder, sb_bench_format format, sb_error *err);

#endif

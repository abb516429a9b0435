/* bench_folder.h - checkpoints of a size that says something, faster than `samebit make` draws
 * them.
 */
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

/* Experts only, 4 * 10^8 weights: each is one of a few drawn matrices with its tiles of 128 x 128
 * in another order, so that no two are the same and all are what a quantizer makes of the original,
 * which is the folder of SB_BENCH_bf16. */
sb_status sb_bench_folder(const char *folder, sb_bench_format format, sb_error *err);

#endif

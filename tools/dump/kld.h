/* kld.h - a KLD base file in memory, for its reader and for tests. */
#ifndef SB_DUMP_KLD_H
#define SB_DUMP_KLD_H

#include "tools/dump/dump.h"

typedef struct sb_kld sb_kld;

/* The bytes must outlive *out; messages name them by `file`. */
sb_status sb_kld_parse(const unsigned char *bytes, size_t size, const char *file,
                       const sb_dump_options *options, sb_trace_head *head, sb_kld **out,
                       sb_error *err);
sb_status sb_kld_play(void *kld, sb_step_fn take, void *ctx, sb_error *err);
void sb_kld_free(void *kld); /* NULL is fine */

#endif

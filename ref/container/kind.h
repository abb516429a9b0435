/* kind.h - what a file is that is no safetensors file. */
#ifndef SB_CONTAINER_KIND_H
#define SB_CONTAINER_KIND_H

#include <stddef.h>

/* What the first bytes say: ": this is a GGUF file; ..." with advice, for the end of a message. ""
 * if they say nothing. */
const char *sb_kind_of(const unsigned char *bytes, size_t size);

#endif

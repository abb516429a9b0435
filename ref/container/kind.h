/* kind.h - recognises files that are not safetensors files. */
#ifndef SB_CONTAINER_KIND_H
#define SB_CONTAINER_KIND_H

#include <stddef.h>

/* Returns the end of a message about the kind of file that begins with these bytes, with advice: ":
 * this is a GGUF file; ...". "" if the kind is unknown. */
const char *sb_kind_of(const unsigned char *bytes, size_t size);

#endif

/* info_laws.h - output of `samebit info` about quantized layers. */
#ifndef SB_CLI_INFO_LAWS_H
#define SB_CLI_INFO_LAWS_H

#include <jansson.h>

#include "ref/container/checkpoint.h"

/* info --laws: opens the folder or file at `path`. */
sb_status sb_info_laws(const char *path, int as_json, sb_error *err);

#endif

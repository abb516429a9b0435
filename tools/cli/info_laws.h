/* info_laws.h - output of `samebit info` about quantized layers. */
#ifndef SB_CLI_INFO_LAWS_H
#define SB_CLI_INFO_LAWS_H

#include <jansson.h>

#include "ref/container/checkpoint.h"

/* Containers per kind of layer: [{layers, container, count, bytes}]. */
sb_status sb_containers_json(const sb_checkpoint *checkpoint, json_t **out, sb_error *err);
void sb_containers_print(const json_t *containers);

/* info --laws: opens the folder or file at `path`. */
sb_status sb_info_laws(const char *path, int as_json, sb_error *err);

#endif

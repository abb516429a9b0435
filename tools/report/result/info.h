/* info.h - the document of samebit info, and its forms. */
#ifndef SB_REPORT_INFO_H
#define SB_REPORT_INFO_H

#include <jansson.h>

#include "ref/run/model.h"

/* Containers per kind of layer: [{layers, container, count, bytes}]. */
sb_status sb_containers_json(const sb_checkpoint *checkpoint, json_t **out, sb_error *err);

void sb_info_print(const sb_model *model, const json_t *containers);
json_t *sb_info_json(const sb_model *model, json_t *containers);

/* The lists of this program; those with a flag. */
typedef struct sb_info_lists {
    int ops, knobs, profiles, machine;
} sb_info_lists;

void sb_info_lists_print(const sb_info_lists *lists);
json_t *sb_info_lists_json(const sb_info_lists *lists);

#endif

/* info_drafter.h - samebit info of the folder of an EAGLE-3 drafter. */
#ifndef SB_REPORT_INFO_DRAFTER_H
#define SB_REPORT_INFO_DRAFTER_H

#include <jansson.h>

#include "ref/container/checkpoint.h"
#include "ref/model/eagle3.h"

void sb_info_drafter_print(const sb_eagle3_config *config, const sb_checkpoint *checkpoint);
json_t *sb_info_drafter_json(const sb_eagle3_config *config, const sb_checkpoint *checkpoint);

#endif

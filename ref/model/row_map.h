/* row_map.h - how Qwen3-Next interleaves the projections of its linear attention. */
#ifndef SB_MODEL_ROW_MAP_H
#define SB_MODEL_ROW_MAP_H

#include "ref/base/status.h"
#include "ref/model/config.h"

/* maps[0..3]: for each row of in_proj_qkv, in_proj_z, in_proj_b and in_proj_a, the number of the
 * row of in_proj_qkvz or in_proj_ba that stores it. free() releases each map. After SB_ERR_MEMORY
 * the maps made so far are still set. */
sb_status sb_row_maps(const sb_config *config, uint32_t *maps[4]);

#endif

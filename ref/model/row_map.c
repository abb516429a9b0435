#include "ref/model/row_map.h"

#include "ref/base/mem.h"

/* M-8: "in_proj_qkvz holds for each key head g in turn its q (dk rows), k (dk), v (r dv) and z (r
 * dv) rows and in_proj_ba its b (r) and a (r) rows" M-9: "all query heads, then all key heads, then
 * all value heads, each head contiguous" */
sb_status sb_row_maps(const sb_config *c, uint32_t *maps[4])
{
    uint32_t dk = c->lin_k_dim, dv = c->lin_v_dim, r = c->lin_v_heads / c->lin_k_heads;
    uint32_t group = 2 * dk + 2 * r * dv, Kd = sb_config_key_width(c),
             Vd = sb_config_value_width(c);
    uint32_t sizes[4] = {sb_config_conv_channels(c), Vd, c->lin_v_heads, c->lin_v_heads};
    for (unsigned i = 0; i < 4; i++) {
        maps[i] = sb_alloc(sizes[i], sizeof **maps);
        if (!maps[i])
            return SB_ERR_MEMORY;
    }
    for (uint32_t g = 0; g < c->lin_k_heads; g++) {
        for (uint32_t i = 0; i < dk; i++) {
            maps[0][g * dk + i] = g * group + i;
            maps[0][Kd + g * dk + i] = g * group + dk + i;
        }
        for (uint32_t i = 0; i < r * dv; i++) {
            maps[0][2 * Kd + g * r * dv + i] = g * group + 2 * dk + i;
            maps[1][g * r * dv + i] = g * group + 2 * dk + r * dv + i;
        }
        for (uint32_t i = 0; i < r; i++) {
            maps[2][g * r + i] = 2 * g * r + i;
            maps[3][g * r + i] = 2 * g * r + r + i;
        }
    }
    return SB_OK;
}

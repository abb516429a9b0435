#include "tools/make/fill.h"

/* The rows of one key head of Qwen3-Next are q, k, v, z, in the order of M-8. */
static sb_make_place locate_qkvz(const sb_config *c, sb_make_place p, uint64_t row)
{
    uint64_t dk = c->lin_k_dim;
    uint64_t rdv = c->lin_v_heads / c->lin_k_heads * c->lin_v_dim;
    uint64_t group = row / (2 * dk + 2 * rdv);
    uint64_t at = row % (2 * dk + 2 * rdv);
    uint64_t key_width = sb_config_key_width(c);
    p.role = SB_ROLE_in_proj_qkv;
    p.rows = sb_config_conv_channels(c);
    if (at < dk) {
        p.row = group * dk + at;
    } else if (at < 2 * dk) {
        p.row = key_width + group * dk + at - dk;
    } else if (at < 2 * dk + rdv) {
        p.row = 2 * key_width + group * rdv + at - 2 * dk;
    } else {
        p.role = SB_ROLE_in_proj_z;
        p.rows = sb_config_value_width(c);
        p.row = group * rdv + at - 2 * dk - rdv;
    }
    return p;
}

static sb_make_place locate_ba(const sb_config *c, sb_make_place p, uint64_t row)
{
    uint64_t r = c->lin_v_heads / c->lin_k_heads;
    uint64_t at = row % (2 * r);
    p.role = at < r ? SB_ROLE_in_proj_b : SB_ROLE_in_proj_a;
    p.rows = c->lin_v_heads;
    p.row = row / (2 * r) * r + at % r;
    return p;
}

static sb_make_place locate_expert(sb_make_place p, uint64_t rows, uint64_t row)
{
    p.expert = (uint32_t)(row / rows);
    p.row = row % rows;
    p.rows = rows;
    if (p.role == SB_ROLE_experts_down) {
        p.role = SB_ROLE_expert_down;
        return p;
    }
    p.rows = rows / 2;
    p.role = p.row < p.rows ? SB_ROLE_expert_gate : SB_ROLE_expert_up;
    p.row %= p.rows;
    return p;
}

sb_make_place sb_make_locate(const sb_config *config, sb_role role, uint32_t expert, unsigned rank,
                             const uint64_t *shape, uint64_t row)
{
    sb_make_place p = {role, expert, rank == 1 ? 1 : shape[0], shape[rank - 1], row};
    switch (role) {
    case SB_ROLE_in_proj_qkvz:
        return locate_qkvz(config, p, row);
    case SB_ROLE_in_proj_ba:
        return locate_ba(config, p, row);
    case SB_ROLE_experts_gate_up:
    case SB_ROLE_experts_down:
        return locate_expert(p, shape[1], row);
    default:
        return p;
    }
}

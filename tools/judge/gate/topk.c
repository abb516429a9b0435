#include "tools/judge/gate/topk.h"

#include <stdlib.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "tools/judge/gate/weights.h"

/* V-136: "Token t has the experts (a + b s) mod E of its slots s" - b is coprime to E. */
static uint32_t stride_of(uint64_t from, uint32_t experts)
{
    for (uint32_t i = 0;; i++) {
        uint32_t b = (uint32_t)((from + i) % experts), a = experts, rest = b ? b : 1;
        while (rest) {
            uint32_t next = a % rest;
            a = rest;
            rest = next;
        }
        if (a == 1 && (b || experts == 1))
            return b;
    }
}

static uint64_t mixed(uint64_t x)
{
    x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 29) * 0x94d049bb133111ebu;
    return x ^ x >> 32;
}

sb_status sb_gate_add_topk(sb_gate_case *c, uint32_t rows, uint32_t slots, uint32_t experts)
{
    const uint64_t shape[] = {rows, slots};
    sb_gate_array *ids = sb_gate_add(c, "topk_ids", SB_DTYPE_I32, "token,slot", 2, shape);
    sb_gate_array *weights =
        ids ? sb_gate_add(c, "topk_weights", SB_DTYPE_F32, "token,slot", 2, shape) : NULL;
    if (!weights)
        return SB_ERR_MEMORY;
    for (uint32_t t = 0; t < rows; t++) {
        uint64_t h = mixed(c->seed * 4096 + t);
        uint32_t first = (uint32_t)(h % experts), stride = stride_of(h >> 32, experts);
        float sum = 0.0f;
        for (uint32_t s = 0; s < slots; s++)
            sum += 1.0f + (float)(mixed(h + s) >> 56) / 64.0f;
        for (uint32_t s = 0; s < slots; s++) {
            size_t at = ((size_t)t * slots + s) * 4;
            uint32_t id = (uint32_t)((first + (uint64_t)stride * s) % experts);
            float w = (1.0f + (float)(mixed(h + s) >> 56) / 64.0f) / sum;
            sb_store_u32(ids->data + at, id);
            sb_store_u32(weights->data + at, sb_bits_f32(w));
        }
    }
    return SB_OK;
}

uint32_t sb_gate_topk_id(const sb_gate_case *c, size_t slots, size_t token, size_t slot)
{
    return sb_load_u32(sb_gate_input(c, "topk_ids")->data + (token * slots + slot) * 4);
}

float sb_gate_topk_weight(const sb_gate_case *c, size_t slots, size_t token, size_t slot)
{
    const unsigned char *data = sb_gate_input(c, "topk_weights")->data;
    return sb_f32_from_bits(sb_load_u32(data + (token * slots + slot) * 4));
}

sb_status sb_gate_need_topk(const sb_gate_case *c, uint32_t rows, uint32_t slots, uint32_t experts,
                            sb_error *err)
{
    const uint64_t shape[] = {rows, slots};
    sb_status status = sb_gate_need_typed(c, "topk_ids", SB_DTYPE_I32, 2, shape, err);
    if (!status)
        status = sb_gate_need_typed(c, "topk_weights", SB_DTYPE_F32, 2, shape, err);
    for (uint32_t t = 0; !status && t < rows; t++)
        for (uint32_t s = 0; !status && s < slots; s++) {
            float w = sb_gate_topk_weight(c, slots, t, s);
            if (sb_gate_topk_id(c, slots, t, s) >= experts || !(w - w == 0.0f))
                status = sb_fail(err, SB_ERR_INPUT,
                                 "in.topk_ids, in.topk_weights: token %u, slot %u: expected an id "
                                 "below %u and a finite weight",
                                 t, s, experts);
        }
    return status;
}

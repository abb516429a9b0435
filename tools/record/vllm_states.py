"""The states of sequences from the caches of vLLM on the CPU, in the layouts of docs/state.md.

They are read before a call of the trunk, with the indices that the call itself will use: its attention
metadata.
"""

from typing import Any


def of_linear_attention(layer: Any, meta: Any, row: int) -> tuple[int, dict[str, Any]]:
    """Slot and arrays of the batch's request ROW; none if the call treats the slot as empty."""
    conv, ssm = layer.kv_cache[0], layer.kv_cache[1]
    conv = conv.transpose(-1, -2) if conv.shape[-1] < conv.shape[-2] else conv  # [slots, columns, channels]
    ssm = ssm.view(ssm.shape[0], ssm.shape[1], ssm.shape[3], ssm.shape[2])  # the kernels of the CPU: [.., dk, dv]
    columns = layer.conv1d.weight.shape[-1] - 1
    mask = meta.spec_sequence_masks
    if mask is not None and bool(mask[row]):
        row = int(mask[:row].sum())
        kept = int(meta.num_accepted_tokens[row]) - 1
        slots = meta.spec_state_indices_tensor[row]
        slot = int(slots[kept])
        conv = conv[int(slots[0]), kept : kept + columns]
    else:
        row = row if mask is None else int((~mask[:row]).sum())
        slot = int(meta.non_spec_state_indices_tensor[row])
        if row >= meta.num_decodes and not bool(meta.has_initial_state[row]):
            return slot, {}
        conv = conv[slot, :columns]
    return slot, {"conv_state": conv, "recurrent_state": ssm[slot]}


def of_full_attention(layer: Any, meta: Any, row: int, past: int) -> dict[str, Any]:
    """Keys and values of PAST positions: pages of blocks, each with the keys of all heads before the values."""
    cache = layer.kv_cache
    blocks, heads, size, both = cache.shape
    width = both // 2
    keys, wide = cache.view(blocks, heads, 2 * size, width).chunk(2, dim=2)
    table = meta.block_table[row][: (past + size - 1) // size].long()
    # the keys of a block are stored column by column
    keys = keys[table].reshape(len(table), heads, width, size).permute(0, 3, 1, 2)
    wide = wide[table].permute(0, 2, 1, 3)
    return {
        "keys": keys.reshape(-1, heads, width)[:past],
        "values": wide.reshape(-1, heads, width)[:past],
    }


def states(layers: Any, metas: Any, row: int, past: int) -> tuple[int, dict[str, Any]]:
    """Slot and arrays of a request with PAST positions."""
    slot, found = 0, {}
    for number, layer in reversed(list(enumerate(layers))):
        if layer.layer_type == "linear_attention":
            attn = layer.linear_attn
            slot, arrays = of_linear_attention(attn, metas[attn.prefix], row)
            found |= {f"layers.{number}.linear_attn.{name}": array for name, array in arrays.items() if past}
        elif past:
            attn = layer.self_attn.attn
            arrays = of_full_attention(attn, metas[attn.layer_name], row, past)
            found |= {f"layers.{number}.self_attn.{name}": array for name, array in arrays.items()}
    return slot, found

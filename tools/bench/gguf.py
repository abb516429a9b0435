#!/usr/bin/env python3
"""gguf.py OUT [--layers N] [--interleaved]: a GGUF file of random weights in the shape of 35b-a3b.

The input of tools/bench/beside.py for ik_llama.cpp: experts in IQ4_NL, which takes 4.5 bits per
weight like NVFP4, other matrices in BF16, vectors in binary32. --interleaved writes the same
numbers of bytes in the types to which ik_llama.cpp converts these with `-rtr 1`: IQ4_NL_R4,
BF16_R16. The file is only for timing: rows repeat, there is no tokenizer, and the output is
meaningless.
"""

import argparse
import random
import struct

# hidden, vocabulary, experts, width of an expert
HIDDEN, VOCABULARY, EXPERTS, INNER = 2048, 248320, 256, 512
KEPT = 8
ARCH = "qwen35moe"
TYPES = {  # number, weights of a block, bytes of a block
    "f32": (0, 1, 4),
    "bf16": (30, 1, 2),
    "bf16_r16": (230, 1, 2),
    "iq4_nl": (20, 32, 18),
    "iq4_nl_r4": (220, 32, 18),
}
ALIGNMENT = 32
KEYS = {
    "context_length": 4096,
    "embedding_length": HIDDEN,
    "vocab_size": VOCABULARY,
    "feed_forward_length": INNER,
    "attention.head_count": 16,
    "attention.head_count_kv": 2,
    "attention.key_length": 256,
    "attention.value_length": 256,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "rope.dimension_count": 64,
    "rope.freq_base": 1e7,
    "rope.dimension_sections": [11, 11, 10, 0],
    "expert_count": EXPERTS,
    "expert_used_count": KEPT,
    "expert_feed_forward_length": INNER,
    "expert_shared_feed_forward_length": INNER,
    "full_attention_interval": 4,
    "ssm.conv_kernel": 4,
    "ssm.inner_size": 4096,
    "ssm.state_size": 128,
    "ssm.time_step_rank": 32,
    "ssm.group_count": 16,
}


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def entry(key, value):
    """A key and its value: text, binary32, a 32-bit integer or a list of these."""
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    if isinstance(value, list):
        return text(key) + struct.pack("<IIQ%di" % len(value), 9, 5, len(value), *value)
    return text(key) + struct.pack("<II", 4, value)


def attention_tensors():
    return [
        ("attn_q.weight", "bf16", (HIDDEN, 8192)),
        ("attn_k.weight", "bf16", (HIDDEN, 512)),
        ("attn_v.weight", "bf16", (HIDDEN, 512)),
        ("attn_output.weight", "bf16", (4096, HIDDEN)),
        ("attn_q_norm.weight", "f32", (256,)),
        ("attn_k_norm.weight", "f32", (256,)),
    ]


def delta_tensors():
    return [
        ("attn_qkv.weight", "bf16", (HIDDEN, 8192)),
        ("attn_gate.weight", "bf16", (HIDDEN, 4096)),
        ("ssm_conv1d.weight", "f32", (4, 8192)),
        ("ssm_dt.bias", "f32", (32,)),
        ("ssm_a", "f32", (32,)),
        ("ssm_beta.weight", "bf16", (HIDDEN, 32)),
        ("ssm_alpha.weight", "bf16", (HIDDEN, 32)),
        ("ssm_norm.weight", "f32", (128,)),
        ("ssm_out.weight", "bf16", (4096, HIDDEN)),
    ]


def layer_tensors(number, experts):
    mixer = attention_tensors() if (number + 1) % 4 == 0 else delta_tensors()
    rest = [
        ("attn_norm.weight", "f32", (HIDDEN,)),
        ("post_attention_norm.weight", "f32", (HIDDEN,)),
        ("ffn_gate_inp.weight", "bf16", (HIDDEN, EXPERTS)),
        ("ffn_gate_inp_shexp.weight", "f32", (HIDDEN,)),
        ("ffn_gate_exps.weight", experts, (HIDDEN, INNER, EXPERTS)),
        ("ffn_up_exps.weight", experts, (HIDDEN, INNER, EXPERTS)),
        ("ffn_down_exps.weight", experts, (INNER, HIDDEN, EXPERTS)),
        ("ffn_gate_shexp.weight", "bf16", (HIDDEN, INNER)),
        ("ffn_up_shexp.weight", "bf16", (HIDDEN, INNER)),
        ("ffn_down_shexp.weight", "bf16", (INNER, HIDDEN)),
    ]
    return [("blk.%d.%s" % (number, name), kind, dims) for name, kind, dims in mixer + rest]


def all_tensors(layers, interleaved):
    experts = "iq4_nl_r4" if interleaved else "iq4_nl"
    tensors = [
        ("output_norm.weight", "f32", (HIDDEN,)),
        ("output.weight", "bf16", (HIDDEN, VOCABULARY)),
    ]
    for number in range(layers):
        tensors += layer_tensors(number, experts)
    if interleaved:
        tensors = [(n, "bf16_r16" if kind == "bf16" else kind, dims) for n, kind, dims in tensors]
    # rows of the embedding are looked up one by one
    return [("token_embd.weight", "bf16", (HIDDEN, VOCABULARY))] + tensors


def count(dims):
    n = 1
    for d in dims:
        n *= d
    return n


def size(kind, dims):
    _, weights, width = TYPES[kind]
    return count(dims) // weights * width


def bf16_pool(rng, n):
    """Approximately normal numbers with standard deviation 0.02."""
    return b"".join(struct.pack("<f", rng.gauss(0, 0.02))[2:] for _ in range(n))


def block_pool(rng, n, together):
    """Blocks of IQ4_NL, `together` rows interleaved: their scales, then their codes."""
    scales = struct.pack("<%de" % together, *[0.0006] * together)
    return b"".join(scales + rng.randbytes(16 * together) for _ in range(n))


def vector(rng, name, n):
    if name.endswith("ssm_a"):
        return [-rng.uniform(0.5, 8) for _ in range(n)]
    if "norm" in name:
        return [1 + rng.gauss(0, 0.05) for _ in range(n)]
    if "conv1d" in name:
        return [rng.gauss(0, 0.3) for _ in range(n)]
    if "ssm_dt" in name:
        return [rng.gauss(-3, 1) for _ in range(n)]
    return [rng.gauss(0, 0.02) for _ in range(n)]


def pad(file):
    file.write(b"\0" * (-file.tell() % ALIGNMENT))


def write(path, layers, interleaved):
    rng = random.Random(42)
    values = bf16_pool(rng, 1000003)
    blocks = block_pool(rng, 65539, 4 if interleaved else 1)
    pools = {"bf16": values, "bf16_r16": values, "iq4_nl": blocks, "iq4_nl_r4": blocks}
    tensors = all_tensors(layers, interleaved)
    meta = {"general.architecture": ARCH, "general.name": "random", "general.file_type": 32}
    meta[ARCH + ".block_count"] = layers
    meta.update((ARCH + "." + key, value) for key, value in KEYS.items())
    meta["tokenizer.ggml.model"] = "none"
    token = at = 0
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta)))
        for key, value in meta.items():
            file.write(entry(key, value))
        for name, kind, dims in tensors:
            file.write(text(name) + struct.pack("<I%dQ" % len(dims), len(dims), *dims))
            file.write(struct.pack("<IQ", TYPES[kind][0], at))
            at += (size(kind, dims) + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        pad(file)
        for name, kind, dims in tensors:
            left = size(kind, dims)
            if name != "token_embd.weight":
                token += left * KEPT // EXPERTS if "_exps" in name else left
            if kind == "f32":
                n = count(dims)
                file.write(struct.pack("<%df" % n, *vector(rng, name, n)))
                left = 0
            while left:
                left -= file.write(pools[kind][:left])
            pad(file)
    print("%s: %d layers, %.1f MB of weights a token" % (path, layers, token / 1e6))


def main():
    parser = argparse.ArgumentParser(description="a GGUF file of random weights for ik_llama.cpp")
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--interleaved", action="store_true")
    args = parser.parse_args()
    write(args.out, args.layers, args.interleaved)


main()

"""The BF16 input checkpoints of the quantizers: tiny, in real format, the same bytes everywhere.

Every value is a function of the tensor's name and the element's index (files.mix64). Besides
bell-shaped values with a few outliers, the matrices contain the cases for which quantizers have
rules: blocks of zeros, of -0.0 and of values far below the rest, a zero row, and a 128 x 128 block
of zeros.
"""

from pathlib import Path

import numpy as np
import xxhash

from quant.files import FixtureError, Tensor, bell, mix64, write_json, write_tensors

HIDDEN = 128
INTERMEDIATE = 128  # of one expert and of the shared expert
EXPERTS = 4
VOCABULARY = 160
HEAD_DIM = 32
LAYERS = ("linear_attention", "full_attention")
KINDS = ("moe", "moe-mtp", "dense")

_COMMON = {
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": None,
    "dtype": "bfloat16",
    "eos_token_id": None,
    "full_attention_interval": 2,
    "head_dim": HEAD_DIM,
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "initializer_range": 0.02,
    "layer_types": list(LAYERS),
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_value_head_dim": 32,
    "max_position_embeddings": 256,
    "num_attention_heads": 4,
    "num_hidden_layers": len(LAYERS),
    "num_key_value_heads": 2,
    "pad_token_id": None,
    "partial_rotary_factor": 0.25,
    "rms_norm_eps": 1e-06,
    "rope_parameters": {
        "mrope_interleaved": True,
        "mrope_section": [2, 1, 1],
        "partial_rotary_factor": 0.25,
        "rope_theta": 10000000.0,
        "rope_type": "default",
    },
    "tie_word_embeddings": False,
    "use_cache": True,
    "vocab_size": VOCABULARY,
}
_MOE = {
    "architectures": ["Qwen3_5MoeForCausalLM"],
    "model_type": "qwen3_5_moe_text",
    "moe_intermediate_size": INTERMEDIATE,
    "num_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "output_router_logits": False,
    "router_aux_loss_coef": 0.001,
    "shared_expert_intermediate_size": INTERMEDIATE,
}
_DENSE = {
    "architectures": ["Qwen3_5ForCausalLM"],
    "intermediate_size": 2 * INTERMEDIATE,
    "model_type": "qwen3_5_text",
}


def config(kind: str) -> dict:
    """config.json of one kind of checkpoint."""
    fields = _COMMON | (_DENSE if kind == "dense" else _MOE)
    return fields | ({"mtp_num_hidden_layers": 1} if kind == "moe-mtp" else {})


def attention_shapes(prefix: str, layer_type: str) -> dict[str, tuple[int, ...]]:
    """Tensors of the token mixer of one layer."""
    if layer_type == "full_attention":
        return {
            f"{prefix}self_attn.q_proj.weight": (2 * 4 * HEAD_DIM, HIDDEN),
            f"{prefix}self_attn.k_proj.weight": (2 * HEAD_DIM, HIDDEN),
            f"{prefix}self_attn.v_proj.weight": (2 * HEAD_DIM, HIDDEN),
            f"{prefix}self_attn.o_proj.weight": (HIDDEN, 4 * HEAD_DIM),
            f"{prefix}self_attn.q_norm.weight": (HEAD_DIM,),
            f"{prefix}self_attn.k_norm.weight": (HEAD_DIM,),
        }
    return {
        f"{prefix}linear_attn.in_proj_qkv.weight": (256, HIDDEN),
        f"{prefix}linear_attn.in_proj_z.weight": (128, HIDDEN),
        f"{prefix}linear_attn.in_proj_b.weight": (4, HIDDEN),
        f"{prefix}linear_attn.in_proj_a.weight": (4, HIDDEN),
        f"{prefix}linear_attn.conv1d.weight": (256, 1, 4),
        f"{prefix}linear_attn.A_log": (4,),
        f"{prefix}linear_attn.dt_bias": (4,),
        f"{prefix}linear_attn.norm.weight": (32,),
        f"{prefix}linear_attn.out_proj.weight": (HIDDEN, 128),
    }


def mlp_shapes(prefix: str, kind: str) -> dict[str, tuple[int, ...]]:
    """Tensors of the MLP of one layer; experts are stacked, as in the published BF16 files."""
    if kind == "dense":
        width = 2 * INTERMEDIATE
        return {
            f"{prefix}mlp.gate_proj.weight": (width, HIDDEN),
            f"{prefix}mlp.up_proj.weight": (width, HIDDEN),
            f"{prefix}mlp.down_proj.weight": (HIDDEN, width),
        }
    return {
        f"{prefix}mlp.gate.weight": (EXPERTS, HIDDEN),
        f"{prefix}mlp.shared_expert_gate.weight": (1, HIDDEN),
        f"{prefix}mlp.shared_expert.gate_proj.weight": (INTERMEDIATE, HIDDEN),
        f"{prefix}mlp.shared_expert.up_proj.weight": (INTERMEDIATE, HIDDEN),
        f"{prefix}mlp.shared_expert.down_proj.weight": (HIDDEN, INTERMEDIATE),
        f"{prefix}mlp.experts.gate_up_proj": (EXPERTS, 2 * INTERMEDIATE, HIDDEN),
        f"{prefix}mlp.experts.down_proj": (EXPERTS, HIDDEN, INTERMEDIATE),
    }


def layer_shapes(prefix: str, layer_type: str, kind: str) -> dict[str, tuple[int, ...]]:
    """Tensors of one decoder layer."""
    shapes: dict[str, tuple[int, ...]] = {
        f"{prefix}input_layernorm.weight": (HIDDEN,),
        f"{prefix}post_attention_layernorm.weight": (HIDDEN,),
    }
    return shapes | attention_shapes(prefix, layer_type) | mlp_shapes(prefix, kind)


def shapes_of(kind: str) -> dict[str, tuple[int, ...]]:
    """Every tensor of one kind of checkpoint."""
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (VOCABULARY, HIDDEN),
        "model.norm.weight": (HIDDEN,),
        "lm_head.weight": (VOCABULARY, HIDDEN),
    }
    for index, layer_type in enumerate(LAYERS):
        shapes |= layer_shapes(f"model.layers.{index}.", layer_type, kind)
    if kind == "moe-mtp":
        shapes |= layer_shapes("mtp.layers.0.", "full_attention", kind)
        shapes |= {
            "mtp.fc.weight": (HIDDEN, 2 * HIDDEN),
            "mtp.norm.weight": (HIDDEN,),
            "mtp.pre_fc_norm_embedding.weight": (HIDDEN,),
            "mtp.pre_fc_norm_hidden.weight": (HIDDEN,),
        }
    return shapes


def spread_of(name: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """Mean and spread of one tensor, for which activations stay near one."""
    if name.endswith("embed_tokens.weight"):
        return 0.0, 1.0
    if name.endswith("linear_attn.norm.weight"):
        return 1.0, 0.25
    if name.endswith("dt_bias"):
        return 0.0, 3.0
    if name.endswith(("A_log", "conv1d.weight")):
        return 0.0, 0.5
    if len(shape) == 1:
        return 0.0, 0.25
    return 0.0, 2.0 ** -round(np.log2(shape[-1]) / 2)


def plant(name: str, matrix: np.ndarray) -> None:
    """Put the special blocks into MATRIX [N, K] (N >= 64)."""
    matrix[3, 16:32] = 0.0
    matrix[5, 0:16] = -0.0
    matrix[7, 32:48] *= 2.0**-20
    matrix[9, 64:96] *= 2.0**-8
    matrix[11, 40] = -0.0
    if name.endswith(("experts.down_proj", "mlp.down_proj.weight", "out_proj.weight")):
        matrix[1, :] = 0.0
    if name.endswith("self_attn.q_proj.weight"):
        matrix[128:256, :] = 0.0


def to_bf16(values: np.ndarray) -> np.ndarray:
    """Round doubles that are exact in f32 to BF16, ties to even."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16).astype("<u2")


def fill(name: str, shape: tuple[int, ...]) -> Tensor:
    """The tensor called NAME."""
    count = int(np.prod(shape))
    seed = xxhash.xxh3_64_intdigest(name.encode())
    mean, spread = spread_of(name, shape)
    values = bell(count, seed)
    outlier = mix64(np.arange(count), seed ^ 1) & np.uint64(0x1FF) == 0
    values = mean + spread * np.where(outlier & (len(shape) > 1), 4.0 * values, values)
    values = values.astype(np.float32).astype(np.float64).reshape(shape)
    if len(shape) >= 2 and shape[-2] >= 64 and "conv1d" not in name and "embed" not in name:
        for matrix in values.reshape(-1, *shape[-2:]):
            plant(name, matrix)
    return Tensor("BF16", to_bf16(values))


def make(folder: Path, kind: str) -> None:
    """Write the checkpoint of one kind to FOLDER."""
    if kind not in KINDS:
        raise FixtureError(f"input {kind}: expected one of {', '.join(KINDS)}")
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: fill(name, shape) for name, shape in shapes_of(kind).items()}
    write_tensors(folder / "model.safetensors", tensors, {"format": "pt"})
    write_json(folder / "config.json", config(kind))

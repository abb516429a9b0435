"""The folders in the matrix of quantizers; nothing here imports a quantizer.

A name consists of producer, scheme, modification, and kind of the source. `samebit make` makes the sources
(SOURCES), except `plain`, which quant.inputs makes: a dense model with special blocks.
"""

from dataclasses import dataclass, field

# kind: options of `samebit make`. "bare" has no MTP head: ModelOpt drops the head but leaves its declaration in
# config.json, which `samebit check --against` calls an ERROR (V-150). llm-compressor and AutoRound copy it.
SOURCES = {
    "moe": ["--preset", "T3", "--recipe", "plain"],
    "moe-bare": ["--preset", "T3", "--recipe", "plain", "--no-mtp"],
    "tied": ["--preset", "T4", "--recipe", "plain"],
    "tied-bare": ["--preset", "T4", "--recipe", "plain", "--no-mtp"],
    "next": ["--preset", "T5", "--recipe", "plain"],
    "wide": ["--preset", "T6", "--recipe", "plain", "--no-mtp"],
    "vl": ["--preset", "T4", "--recipe", "plain", "--layout", "vl", "--no-mtp"],
    "plain": [],
}


@dataclass(frozen=True)
class Row:
    """One folder. SETTINGS are in the producer's own terms, see quant.matrix_make."""

    kind: str
    settings: dict = field(default_factory=dict)
    head: bool = False  # the MTP head of the source is grafted into the written folder


def _ct(scheme: str | dict, kind: str = "moe-bare", modifier: str = "Quantization", **more) -> Row:
    head = more.pop("head", False)
    return Row("moe" if head else kind, {"scheme": scheme, "modifier": modifier} | more, head)


def _weights(bits: int, kind: str = "int", **more) -> dict:
    """A scheme for weights only."""
    return {"weights": {"num_bits": bits, "type": kind, "symmetric": True} | more}


_NVFP4 = {"strategy": "tensor_group", "group_size": 16, "scale_dtype": "torch.float8_e4m3fn"}

CT = {
    "ct-nvfp4-moe": _ct("NVFP4"),
    "ct-nvfp4-moe-kept": _ct("NVFP4", "moe"),
    "ct-nvfp4-tied": _ct("NVFP4", "tied-bare"),
    "ct-nvfp4-moe-head": _ct("NVFP4", head=True),
    "ct-nvfp4-gptq-moe": _ct("NVFP4", modifier="GPTQ"),
    "ct-nvfp4a16-tied": _ct("NVFP4A16", "tied-bare"),
    "ct-nvfp4a16-mse-tied": _ct(_weights(4, "float", observer="mse", **_NVFP4), "tied-bare"),
    "ct-nvfp4-awq-tied": _ct("NVFP4A16", "tied-bare", "AWQ"),
    "ct-nvfp4-smooth-tied": _ct("NVFP4", "tied-bare", "SmoothQuant"),
    "ct-fp8-block-moe": _ct("FP8_BLOCK"),
    "ct-fp8-block-moe-head": _ct("FP8_BLOCK", head=True),
    "ct-fp8-block-gptq-tied": _ct("FP8_BLOCK", "tied-bare", "GPTQ"),
    "ct-fp8-dynamic-moe": _ct("FP8_DYNAMIC"),
    "ct-fp8-dynamic-wide": _ct("FP8_DYNAMIC", "wide"),
    "ct-fp8-dynamic-gptq-moe": _ct("FP8_DYNAMIC", modifier="GPTQ"),
    "ct-fp8-mse-tied": _ct(_weights(8, "float", strategy="channel", observer="mse"), "tied-bare"),
    "ct-fp8-plain": _ct("FP8", "plain"),
    "ct-w4a16-moe": _ct("W4A16"),
    "ct-w4a16-gptq-moe": _ct("W4A16", modifier="GPTQ"),
    "ct-w4a16-gptq-order-tied": _ct("W4A16", "tied-bare", "GPTQ", actorder="weight"),
    "ct-w4a16-gptq-g32-static-tied": _ct(
        _weights(4, strategy="group", group_size=32), "tied-bare", "GPTQ", actorder="static"
    ),
    "ct-w4a16-asym-awq-tied": _ct("W4A16_ASYM", "tied-bare", "AWQ"),
    "ct-w4a16-g32-mse-moe": _ct(_weights(4, strategy="group", group_size=32, observer="mse")),
    "ct-w8a16-tied": _ct("W8A16", "tied-bare"),
    "ct-w8a16-g64-tied": _ct(_weights(8, strategy="group", group_size=64), "tied-bare"),
    "ct-w8a8-smooth-tied": _ct("W8A8", "tied-bare", "SmoothQuant"),
    "ct-w8a8-moe": _ct("W8A8"),
    "ct-mxfp4-moe": _ct("MXFP4"),
    "ct-mxfp8-tied": _ct("MXFP8", "tied-bare"),
    "ct-w4afp8-tied": _ct("W4AFP8", "tied-bare"),
    "ct-w6a16-tied": _ct(_weights(6, strategy="group", group_size=128), "tied-bare"),
}


def _ar(form: str, kind: str = "moe", iters: int = 0, **how) -> Row:
    return Row(kind, {"form": form, "iters": iters, "how": how})


AUTOROUND = {
    "ar-w4a16-moe": _ar("auto_round", scheme="W4A16"),
    "ar-w4a16-iters-moe": _ar("auto_round", iters=8, scheme="W4A16"),
    "ar-w4a16-iters-tied": _ar("auto_round", "tied", 8, scheme="W4A16"),
    "ar-w4a16-next": _ar("auto_round", "next", scheme="W4A16"),
    "ar-gptq-g64-next": _ar("auto_gptq", "next", bits=4, group_size=64, sym=True),
    "ar-w4-g32-asym-tied": _ar("auto_round", "tied", bits=4, group_size=32, sym=False),
    "ar-w4-g64-asym-iters-moe": _ar("auto_round", "moe", 8, bits=4, group_size=64, sym=False),
    "ar-gptq-g128-tied": _ar("auto_gptq", "tied", bits=4, group_size=128, sym=True),
    "ar-gptq-g32-iters-moe": _ar("auto_gptq", "moe", 8, bits=4, group_size=32, sym=True),
    "ar-gptq-asym-iters-tied": _ar("auto_gptq", "tied", 8, bits=4, group_size=64, sym=False),
    "ar-awq-g64-tied": _ar("auto_awq", "tied", bits=4, group_size=64, sym=False),
    "ar-awq-g128-iters-moe": _ar("auto_awq", "moe", 8, bits=4, group_size=128, sym=False),
    "ar-int8-g64-tied": _ar("auto_gptq", "tied", bits=8, group_size=64, sym=True),
    "ar-int8-g64-iters-moe": _ar("auto_gptq", "moe", 8, bits=8, group_size=64, sym=True),
    "ar-w8a16-tied": _ar("auto_round", "tied", scheme="W8A16"),
    "ar-nvfp4-moe": _ar("llm_compressor", scheme="NVFP4"),
    "ar-nvfp4-iters-moe": _ar("llm_compressor", "moe-bare", 8, scheme="NVFP4"),
    "ar-nvfp4-iters-tied": _ar("auto_round", "tied", 8, scheme="NVFP4"),
    "ar-nvfp4-bare": _ar("llm_compressor", "moe-bare", scheme="NVFP4"),
    "ar-mxfp4-moe": _ar("llm_compressor", "moe-bare", scheme="MXFP4"),
    "ar-mxfp4-iters-tied": _ar("auto_round", "tied", 8, scheme="MXFP4"),
    "ar-mxfp8-tied": _ar("llm_compressor", "tied-bare", scheme="MXFP8"),
    "ar-fp8-block-moe": _ar("fp8", scheme="FP8_BLOCK"),
    "ar-fp8-block-bare": _ar("fp8", "moe-bare", scheme="FP8_BLOCK"),
    "ar-fp8-static-tied": _ar("llm_compressor", "tied-bare", scheme="FP8_STATIC"),
    "ar-fp8-static-iters-tied": _ar("llm_compressor", "tied-bare", 8, scheme="FP8_STATIC"),
    "ar-w4a16-plain": _ar("auto_round", "plain", 8, scheme="W4A16"),
}


def _mo(config: str, kind: str = "moe-bare", **more) -> Row:
    head = more.pop("head", False)
    return Row("moe" if head else kind, {"config": config}, head)


MODELOPT = {
    "mo-nvfp4-moe": _mo("NVFP4_DEFAULT_CFG"),
    "mo-nvfp4-moe-head": _mo("NVFP4_DEFAULT_CFG", head=True),
    "mo-nvfp4-moe-dropped": _mo("NVFP4_DEFAULT_CFG", "moe"),
    "mo-nvfp4-tied": _mo("NVFP4_DEFAULT_CFG", "tied-bare"),
    "mo-nvfp4-next": _mo("NVFP4_DEFAULT_CFG", "next"),
    "mo-nvfp4-vl": _mo("NVFP4_DEFAULT_CFG", "vl"),
    "mo-nvfp4-wide": _mo("NVFP4_DEFAULT_CFG", "wide"),
    "mo-nvfp4-mlp-moe": _mo("NVFP4_MLP_ONLY_CFG"),
    "mo-w4a16-nvfp4-tied": _mo("W4A16_NVFP4_CFG", "tied-bare"),
    "mo-w4a8-nvfp4-fp8-tied": _mo("W4A8_NVFP4_FP8_CFG", "tied-bare"),
    "mo-fp8-moe": _mo("FP8_DEFAULT_CFG"),
    "mo-fp8-wide": _mo("FP8_DEFAULT_CFG", "wide"),
    "mo-fp8-next": _mo("FP8_DEFAULT_CFG", "next"),
    "mo-fp8-plain": _mo("FP8_DEFAULT_CFG", "plain"),
    "mo-fp8-channel-moe": _mo("FP8_PER_CHANNEL_PER_TOKEN_CFG"),
    "mo-fp8-channel-tied": _mo("FP8_PER_CHANNEL_PER_TOKEN_CFG", "tied-bare"),
    "mo-fp8-block-tied": _mo("FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG", "tied-bare"),
    "mo-int4-awq-tied": _mo("INT4_AWQ_CFG", "tied-bare"),
    "mo-int4-tied": _mo("INT4_BLOCKWISE_WEIGHT_ONLY_CFG", "tied-bare"),
    "mo-w4a8-awq-tied": _mo("W4A8_AWQ_BETA_CFG", "tied-bare"),
    "mo-w8a8-smooth-tied": _mo("INT8_SMOOTHQUANT_CFG", "tied-bare"),
    "mo-w8a16-tied": _mo("INT8_WEIGHT_ONLY_CFG", "tied-bare"),
    "mo-mxfp4-moe": _mo("MXFP4_DEFAULT_CFG"),
    "mo-mxfp4-tied": _mo("MXFP4_DEFAULT_CFG", "tied-bare"),
    "mo-mxfp8-tied": _mo("MXFP8_DEFAULT_CFG", "tied-bare"),
    "mo-mxfp4-vl": _mo("MXFP4_DEFAULT_CFG", "vl"),
    "mo-nvfp4-experts-moe": _mo("NVFP4_EXPERTS_ONLY_CFG"),
    "mo-nvfp4-weights-moe": _mo("NVFP4_MLP_WEIGHT_ONLY_CFG"),
    "mo-w4a8-mxfp4-fp8-tied": _mo("W4A8_MXFP4_FP8_CFG", "tied-bare"),
    "mo-int8-tied": _mo("INT8_DEFAULT_CFG", "tied-bare"),
    "mo-mxfp8-moe": _mo("MXFP8_DEFAULT_CFG"),
}

# Missing here, because the libraries do not write them on a CPU: ModelOpt's NVFP4_AWQ (CUDA), and its searches
# for NVFP4 scales (MSE sweep, four over six: triton); Qwen3-Next by llm-compressor (torchvision); GPTQ with
# actorder "group", which llm-compressor 0.14 refuses.
PRODUCERS = {"llmcompressor": CT, "autoround": AUTOROUND, "modelopt": MODELOPT}

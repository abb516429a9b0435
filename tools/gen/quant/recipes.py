"""The source and the recipe of each fixture; nothing here imports a quantizer."""

from dataclasses import dataclass

# name: (kind of input, scheme of llm-compressor); formats without published MoE models use the
# small dense input
CT = {
    "ct-nvfp4": ("moe", "NVFP4"),
    "ct-nvfp4a16": ("moe", "NVFP4A16"),
    "ct-fp8-block": ("moe", "FP8_BLOCK"),
    "ct-fp8-dynamic": ("moe", "FP8_DYNAMIC"),
    "ct-w4a16": ("moe", "W4A16"),
    "ct-w4a16-asym": ("dense", "W4A16_ASYM"),
    "ct-w8a16": ("dense", "W8A16"),
    "ct-fp8": ("dense", "FP8"),
    "ct-mxfp4": ("dense", "MXFP4"),
    "ct-mxfp8": ("dense", "MXFP8"),
}

# name: (kind of input, name of the configuration in modelopt.torch.quantization)
MODELOPT = {
    "modelopt-nvfp4": ("moe", "NVFP4_DEFAULT_CFG"),
    "modelopt-fp8": ("dense", "FP8_DEFAULT_CFG"),
    "modelopt-fp8-block": ("dense", "FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG"),
}


@dataclass(frozen=True)
class AutoRoundRecipe:
    """One call of AutoRound."""

    form: str  # name of AutoRound's export format
    bits: int
    group: int
    symmetric: bool
    iters: int
    scheme: str | None = None  # replaces bits, group and symmetric, which then only describe it


# name: (kind of input, recipe)
AUTOROUND = {
    "autoround-gptq-mtp": ("moe-mtp", AutoRoundRecipe("auto_round", 4, 128, True, 0)),
    "autoround-awq": ("moe", AutoRoundRecipe("auto_round", 4, 64, False, 0)),
    "gptq": ("moe", AutoRoundRecipe("auto_gptq", 4, 128, True, 4)),
    "gptq-asym": ("dense", AutoRoundRecipe("auto_gptq", 4, 32, False, 0)),
    "gptq-int8": ("dense", AutoRoundRecipe("auto_gptq", 8, 128, True, 0)),
    "fp8": ("moe", AutoRoundRecipe("fp8", 8, 128, True, 0, "FP8_BLOCK")),
    "awq": ("dense", AutoRoundRecipe("auto_awq", 4, 128, False, 0)),
}

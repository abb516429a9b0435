"""compressed-tensors folders: written by llm-compressor, read by compressed-tensors itself.

transformers 5.17 alone is wrong for NVFP4 and block FP8 of these models: it stacks the experts and
drops weight_global_scale, and multiplies block scales as if there were only one. So the model that
computes the logits has its experts as linear layers (llm-compressor's own module), and follows the
steps of transformers' quantizer: apply_quantization_config, compress_model, weights of the folder,
decompress_model. Its activation quantizers are compressed-tensors' fake quantizers.
"""

import json
from contextlib import nullcontext
from pathlib import Path

import quant.taps  # noqa: F401  (sets the environment before transformers is imported)

import torch
from compressed_tensors.compressors import BaseCompressor, ModelCompressor
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.quantization import (
    QuantizationConfig,
    QuantizationStrategy,
    apply_quantization_config,
)
from compressed_tensors.quantization.lifecycle.forward import dequantize
from datasets import Dataset
from llmcompressor import oneshot
from llmcompressor.modeling.moe.linearize import linearize_moe, load_quantizable_moe
from llmcompressor.modifiers.quantization import QuantizationModifier
from tokenizers import Tokenizer, models
from transformers import AutoConfig, PreTrainedTokenizerFast

from quant import dense, expect, inputs
from quant.files import FixtureError, Tensor
from quant.recipes import CT
from quant.taps import run

CALIBRATED = ("NVFP4", "FP8")  # activations with a static scale
IGNORE = [
    "lm_head",
    "re:.*mlp.gate$",
    "re:.*shared_expert_gate$",
    "re:.*in_proj_[ab]$",
]
ROWS, LENGTH = 4, 32  # of the calibration data

LAW = {
    "BF16": "BaseCompressor.decompress of the tensors of the folder",
    "F32": "compressed_tensors dequantize() of the same codes, scale converted to F32, dtype=F32",
}


def tokenizer() -> PreTrainedTokenizerFast:
    """One word for each id: oneshot needs a tokenizer even for tokenised data."""
    words = {f"t{i}": i for i in range(inputs.VOCABULARY)}
    model = models.WordLevel(words, unk_token="t0")
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(model), unk_token="t0", pad_token="t0"
    )


def calibration() -> Dataset:
    """A few rows of pseudo-random tokens."""
    rows = [
        [(7 * i * i + 13 * i + 5 + 31 * r) % inputs.VOCABULARY for i in range(LENGTH)]
        for r in range(ROWS)
    ]
    return Dataset.from_dict({"input_ids": rows, "attention_mask": [[1] * LENGTH] * ROWS})


def quantize(source: Path, folder: Path, kind: str, scheme: str) -> None:
    """Let llm-compressor's oneshot quantize SOURCE and write FOLDER."""
    cls = dense.CLASSES[kind]
    with load_quantizable_moe(cls) if kind == "moe" else nullcontext():
        model = cls.from_pretrained(source, dtype="auto", attn_implementation="eager")
    recipe = QuantizationModifier(targets="Linear", scheme=scheme, ignore=IGNORE)
    data = {}
    if scheme in CALIBRATED:
        data = {
            "dataset": calibration(),
            "processor": tokenizer(),
            "num_calibration_samples": ROWS,
            "max_seq_length": LENGTH,
        }
    oneshot(model=model, recipe=recipe, **data)
    model.save_pretrained(folder, save_compressed=True)


def folder_config(folder: Path) -> QuantizationConfig:
    """The quantization_config of a folder."""
    fields = json.loads((folder / "config.json").read_text())
    if "quantization_config" not in fields:
        raise FixtureError(f"{folder}: config.json has no quantization_config")
    return QuantizationConfig.model_validate(dense.text_names(fields["quantization_config"]))


def empty_model(folder: Path) -> torch.nn.Module:
    """A BF16 model of the folder's shape with linear experts and arbitrary weights."""
    config = AutoConfig.from_pretrained(folder).get_text_config()
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = dense.class_of(config)._from_config(
        config, dtype=torch.bfloat16, attn_implementation="eager"
    )
    return linearize_moe(model)


def load(folder: Path) -> torch.nn.Module:
    """The model of FOLDER with its weights still compressed."""
    config = folder_config(folder)
    model = empty_model(folder)
    compressor = ModelCompressor(quantization_config=config)
    apply_quantization_config(model, config, run_compressed=False)
    compressor.compress_model(model)
    tensors = {
        name.replace("model.language_model.", "model."): value
        for name, value in dense.tensors_of(folder).items()
        if not name.startswith(("mtp.", "model.visual."))
    }
    if model.config.tie_word_embeddings:  # the file stores the weight once
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    wrong = model.load_state_dict(tensors, strict=False)
    if wrong.missing_keys or wrong.unexpected_keys:
        missing, unexpected = wrong.missing_keys[:8], wrong.unexpected_keys[:8]
        raise FixtureError(f"{folder}: missing {missing}, unexpected {unexpected}")
    model.samebit_compressor = compressor
    return model


def f32_weight(state: dict[str, torch.Tensor], scheme) -> torch.Tensor:
    """The weight of one module in F32, with the library's functions."""
    scale = state["weight_scale"]
    zero_point = None
    if scheme.format.value == "pack-quantized":
        state = BaseCompressor.get_value_from_registry(scheme.format.value).decompress(
            state | {"weight_scale": scale.float()}, scheme
        )
        return state["weight"]
    if scale.dtype == torch.uint8:
        compressor = BaseCompressor.get_value_from_registry(scheme.format.value)
        scale = compressor._decompress_scale(scale, torch.float32) if (
            "weight_packed" in state
        ) else compressor._decompress_scale(scale)
    codes = state.get("weight")
    if codes is None:
        packed = state["weight_packed"]
        rows, columns = packed.shape[0], packed.shape[1] * 2
        codes = unpack_fp4_from_uint8(packed, rows, columns, dtype=torch.float32)
    return dequantize(
        x_q=codes,
        scale=scale.float(),
        zero_point=zero_point,
        args=scheme.weights,
        dtype=torch.float32,
        global_scale=state.get("weight_global_scale"),
    )


def dequantized(model: torch.nn.Module) -> expect.Weights:
    """Every quantized weight of a loaded, still compressed model."""
    weights: expect.Weights = {}
    for name, module in model.named_modules():
        scheme = getattr(module, "quantization_scheme", None)
        if scheme is None or scheme.weights is None:
            continue
        state = {key: value.data for key, value in module.state_dict().items()}
        compressor = BaseCompressor.get_value_from_registry(scheme.format.value)
        half = compressor.decompress(state, scheme)["weight"]
        weights[name] = {"BF16": half, "F32": f32_weight(state, scheme)}
    return weights


def with_batch_axis(module: torch.nn.Module) -> None:
    """Let a layer with one scale per token see three axes.

    compressed-tensors 0.19.0 takes "token" to mean axes 0 and 1. The layers of an expert's MLP get
    only two axes, so all rows would share one scale.
    """
    inner = module.forward

    def forward(rows: torch.Tensor) -> torch.Tensor:
        return inner(rows[None])[0] if rows.dim() == 2 else inner(rows)

    module.forward = forward


def describe(folder: Path) -> tuple[expect.Weights, dict[str, Tensor]]:
    """The dequantized weights of FOLDER, and its model's values in BF16 and in F32."""
    model = load(folder)
    weights = dequantized(model)
    if not weights:
        raise FixtureError(f"{folder}: no quantized module")
    model._forward_pre_hooks.clear()  # it would decompress at the first call
    model.samebit_compressor.decompress_model(model)
    for name, values in weights.items():
        if not torch.equal(model.get_submodule(name).weight, values["BF16"]):
            raise FixtureError(f"{name}: decompress_model and decompress differ")
        activations = model.get_submodule(name).quantization_scheme.input_activations
        if activations is not None and activations.strategy == QuantizationStrategy.TOKEN:
            with_batch_axis(model.get_submodule(name))
    runs = run(model, weights, "bf16.")
    model.float()
    for name, values in weights.items():
        model.get_submodule(name).weight.data = values["F32"]
    return weights, runs | run(model, weights, "")


def metadata(producer: str) -> dict[str, str]:
    """Metadata that a reader needs to repeat or to judge a recording."""
    return expect.versions("llmcompressor", "compressed-tensors") | {
        "producer": producer,
        "law.BF16": LAW["BF16"],
        "law.F32": LAW["F32"],
        "logits_from": "compressed-tensors: experts linearised by llmcompressor,"
        " weights dequantized, activations fake-quantized where the scheme says so (one scale per"
        " token also where a layer gets two axes);"
        " bf16.*: BF16 weights and arithmetic; others: F32 weights and arithmetic",
    }


def record(source: Path, folder: Path) -> str:
    """Quantize SOURCE into FOLDER, whose name is one of recipes.CT, and record it."""
    kind, scheme = CT[folder.name]
    quantize(source, folder, kind, scheme)
    weights, runs = describe(folder)
    producer = f"llmcompressor oneshot, QuantizationModifier, scheme {scheme}"
    return expect.write(folder, folder, weights, runs, metadata(producer))

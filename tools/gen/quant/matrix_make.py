"""Makes the folders of quant.matrix: one function per producer, and the library's values of a folder.

Nothing is compared here: `samebit check` and `samebit check --loaded` do that (quant_matrix.sh).
"""

import json
import shutil
import sys
from pathlib import Path

import quant.taps  # noqa: F401  (sets the environment before transformers is imported)

import torch
from quant import dense, inputs
from quant.files import FixtureError
from quant.matrix import Row
from safetensors.torch import save_file
from tokenizers import Tokenizer, models
from transformers import AutoConfig, PreTrainedTokenizerFast

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "record"))

from params import entry, write_list  # noqa: E402

ROWS, LENGTH = 8, 32  # of the calibration data
IGNORE = ["lm_head", "re:.*mlp.gate$", "re:.*shared_expert_gate$", "re:.*in_proj_[ab]$", "re:.*visual.*"]

# module -> the library's dequantized weight [N, K] in F32
Weights = dict[str, torch.Tensor]


def tokenizer(source: Path) -> PreTrainedTokenizerFast:
    """One word for each id."""
    count = AutoConfig.from_pretrained(source).get_text_config().vocab_size
    model = models.WordLevel({f"t{i}": i for i in range(count)}, unk_token="t0")
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(model), unk_token="t0", pad_token="t0"
    )


def calibration() -> list[list[int]]:
    """A few rows of pseudo-random tokens."""
    return [
        [(7 * i * i + 13 * i + 5 + 31 * r) % inputs.VOCABULARY for i in range(LENGTH)]
        for r in range(ROWS)
    ]


def class_of(source: Path) -> type:
    """The class of transformers that config.json names."""
    import transformers

    return getattr(transformers, AutoConfig.from_pretrained(source).architectures[0])


# --- llm-compressor --------------------------------------------------------------------------------


def _smoothing(source: Path) -> list:
    """Norms and the layers that they feed."""
    from llmcompressor.modifiers.transform.awq import AWQMapping

    layers = AutoConfig.from_pretrained(source).get_text_config().layer_types
    linear = "|".join(str(i) for i, kind in enumerate(layers) if kind == "linear_attention")
    full = "|".join(str(i) for i, kind in enumerate(layers) if kind == "full_attention")
    return [
        AWQMapping(
            f"re:.*layers\\.({full})\\.input_layernorm$",
            [f"re:.*layers\\.({full})\\.self_attn\\.{n}_proj$" for n in "qkv"],
        ),
        AWQMapping(
            f"re:.*layers\\.({linear})\\.input_layernorm$",
            [f"re:.*layers\\.({linear})\\.linear_attn\\.in_proj_{n}$" for n in ("qkv", "z", "b", "a")],
        ),
        AWQMapping(
            "re:.*post_attention_layernorm$", ["re:.*mlp\\.gate_proj$", "re:.*mlp\\.up_proj$"]
        ),
        AWQMapping("re:.*mlp\\.up_proj$", ["re:.*mlp\\.down_proj$"]),
    ]


def _recipe(source: Path, settings: dict) -> list:
    """The modifiers of a row."""
    from llmcompressor.modifiers.gptq import GPTQModifier
    from llmcompressor.modifiers.quantization import QuantizationModifier
    from llmcompressor.modifiers.transform.awq import AWQModifier
    from llmcompressor.modifiers.transform.smoothquant import SmoothQuantModifier

    scheme, kind = settings["scheme"], settings["modifier"]
    if isinstance(scheme, str):
        how = {"targets": "Linear", "scheme": scheme, "ignore": IGNORE}
    else:
        how = {"config_groups": {"group_0": {"targets": ["Linear"]} | scheme}, "ignore": IGNORE}
    if kind == "GPTQ":
        order = {"actorder": settings["actorder"]} if "actorder" in settings else {}
        return [GPTQModifier(**how, **order)]
    quantization = QuantizationModifier(**how)
    if kind == "AWQ":
        return [AWQModifier(mappings=_smoothing(source)), quantization]
    if kind == "SmoothQuant":
        mappings = [(m.balance_layers, m.smooth_layer) for m in _smoothing(source)[:3]]
        return [SmoothQuantModifier(smoothing_strength=0.8, mappings=mappings), quantization]
    return [quantization]


def _ct_make(source: Path, folder: Path, row: Row) -> None:
    from contextlib import nullcontext

    from datasets import Dataset
    from llmcompressor import oneshot
    from llmcompressor.modeling.moe.linearize import load_quantizable_moe
    from llmcompressor.pipelines.cache import IntermediatesCache

    # AWQModifier pins its inputs for copies to a GPU, and torch cannot pin memory without one. No value depends
    # on it.
    IntermediatesCache._pin_intermediate = classmethod(lambda cls, intermediate: None)
    cls = class_of(source)
    stacked = "Moe" in cls.__name__ or "Next" in cls.__name__
    with load_quantizable_moe(cls) if stacked else nullcontext():
        model = cls.from_pretrained(source, dtype="auto", attn_implementation="eager")
    rows = calibration()
    oneshot(
        model=model,
        recipe=_recipe(source, row.settings),
        dataset=Dataset.from_dict(
            {"input_ids": rows, "attention_mask": [[1] * LENGTH] * ROWS}
        ),
        processor=tokenizer(source),
        num_calibration_samples=ROWS,
        max_seq_length=LENGTH,
    )
    model.save_pretrained(folder, save_compressed=True)


def _ct_weights(folder: Path, _row: Row) -> Weights:
    from quant import ct

    return {name: values["F32"] for name, values in ct.dequantized(ct.load(folder)).items()}


# --- AutoRound -------------------------------------------------------------------------------------


def _ar_make(source: Path, folder: Path, row: Row) -> None:
    from auto_round import AutoRound

    model = class_of(source).from_pretrained(source, dtype="auto", attn_implementation="eager")
    rounder = AutoRound(
        model,
        tokenizer(source),
        **row.settings["how"],
        iters=row.settings["iters"],
        seqlen=LENGTH,
        nsamples=ROWS,
        batch_size=1,
        device_map="cpu",
        dataset=[torch.tensor([ids]) for ids in calibration()],
        enable_torch_compile=False,
    )
    work = folder.with_name(folder.name + ".work")
    with torch.enable_grad():
        rounder.quantize_and_save(work, format=row.settings["form"])
    written = [path.parent for path in work.rglob("config.json")]
    if len(written) != 1:
        raise FixtureError(f"{work}: {len(written)} folders with a config.json")
    shutil.move(written[0], folder)
    shutil.rmtree(work, ignore_errors=True)


def _ar_weights(folder: Path, row: Row) -> Weights:
    from quant import autoround, hfload
    from quant.recipes import AutoRoundRecipe

    form, how = row.settings["form"], row.settings["how"]
    if form == "fp8":
        return {name: values["F32"] for name, values in hfload.fp8(folder)[0].items()}
    if how.get("scheme", "W4A16") not in ("W4A16", "W8A16"):
        return {}  # AutoRound has no layer for these on a CPU
    recipe = AutoRoundRecipe(
        form,
        8 if how.get("scheme") == "W8A16" else how.get("bits", 4),
        how.get("group_size", 128),
        how.get("sym", True),
        row.settings["iters"],
    )
    weights = autoround.dequantized(folder, recipe)
    return {name: values["F32"] for name, values in weights.items()}


# --- ModelOpt --------------------------------------------------------------------------------------


def _mo_make(source: Path, folder: Path, row: Row) -> None:
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint

    model = class_of(source).from_pretrained(source, dtype="auto", attn_implementation="eager")
    model.eval()

    def calibrate(model: torch.nn.Module) -> None:
        for ids in calibration():
            model(torch.tensor([ids]))

    mtq.quantize(model, getattr(mtq, row.settings["config"]), calibrate)
    with torch.inference_mode():
        export_hf_checkpoint(model, export_dir=folder)


def _mo_weights(folder: Path, row: Row) -> Weights:
    from quant import mopt

    out = {}
    for name, parts in mopt.parts_of(folder).items():
        if "weight_scale_2" in parts and parts["weight"].dtype == torch.uint8:
            out[name] = mopt.nvfp4_weight(parts, torch.float32)
        elif parts["weight"].dtype == torch.float8_e4m3fn and "MX" not in row.settings["config"]:
            out[name] = mopt.fp8_weight(parts, torch.float32)
        else:
            return {}  # ModelOpt has no function for single layers of such a folder
    return out


MAKE = {"llmcompressor": _ct_make, "autoround": _ar_make, "modelopt": _mo_make}
WEIGHTS = {"llmcompressor": _ct_weights, "autoround": _ar_weights, "modelopt": _mo_weights}


def _unquantized(value):
    """VALUE (of config.json) without what declares a quantization."""
    if not isinstance(value, dict):
        return value
    return {
        key: _unquantized(part)
        for key, part in value.items()
        if key not in ("quantization_config", "compression_config")
    }


def write_values(folder: Path, weights: Weights, program: str) -> None:
    """The library's values: FOLDER.values.json for `samebit check --loaded`, and as a checkpoint, FOLDER.plain."""
    if not weights:
        return
    weights = {f"{name}.weight": value for name, value in weights.items()}
    modules = {name.rpartition(".")[0] for name in weights}
    plain = {
        name: value
        for name, value in dense.tensors_of(folder).items()
        if name.rpartition(".")[0] not in modules
    }
    every = sorted((plain | weights).items())
    rows = (entry(name, value, "parameter") for name, value in every)
    write_list(folder.with_name(f"{folder.name}.values.json"), rows, program)
    plain_folder = folder.with_name(f"{folder.name}.plain")
    plain_folder.mkdir()
    config = _unquantized(json.loads((folder / "config.json").read_text()))
    (plain_folder / "config.json").write_text(json.dumps(config, indent=2))
    tensors = {name: value.contiguous() for name, value in every}
    save_file(tensors, plain_folder / "model.safetensors", {"format": "pt"})


def make(producer: str, source: Path, folder: Path, row: Row) -> None:
    """Quantize SOURCE into FOLDER, and write the values that the library reads from it."""
    from quant.claims import claimed

    MAKE[producer](source, folder, row)
    claims = folder.with_name(f"{folder.name}.claims")
    claims.unlink(missing_ok=True)
    if names := claimed(folder):
        claims.write_text("".join(f"{name}\n" for name in names))
    try:
        weights = WEIGHTS[producer](folder, row)
    except Exception as error:  # noqa: BLE001  (a library that cannot read its own folder)
        print(f"NO VALUES: {type(error).__name__}: {error}", file=sys.stderr)
        return
    write_values(folder, weights, producer)

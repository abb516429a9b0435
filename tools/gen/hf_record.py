"""Record one checkpoint: final values of prompts, decoding, and every op of chosen layers."""

import sys
from argparse import Namespace
from dataclasses import dataclass

import torch
from transformers import DynamicCache

from hf_models import (
    DTYPES,
    FixtureError,
    checkpoint_digest,
    load_strictly,
    metadata_for,
    tokens_for,
    write_tensors,
)
from hf_taps import Taps, Values, split_next_projections

TOKENS = 129  # two full chunks of the delta rule and one token
PREFILL_LENGTHS = (
    1,
    3,
    63,
    64,
    65,
    129,
)  # around the kernel width of the convolution and the chunk of 64
PREFILL_ROWS = 2
DECODE_FROM, DECODE_TO = 3, 16
OP_LENGTHS = (3, 65)
OP_ROWS = {3: [0, 1, 2], 65: [0, 62, 63, 64]}  # both sides of the chunk border, and the start
WARM_PROMPT, WARM_TOKENS = (
    3,
    4,
)  # calls of several tokens on a stored state, like verify steps

# Inputs of ops that read earlier rows: an output row can only be checked with all rows before it.
ALL_ROWS = ("linear_attn.in_proj_qkv", "self_attn.k_rope", "self_attn.v_proj")
HEAD_TAPS = ("q", "k", "v", "g", "beta", "core_out", "state_in", "state_out")


@dataclass(frozen=True)
class Result:
    """One model call: all observed values."""

    hidden: torch.Tensor  # [n, H]
    logits: torch.Tensor  # [n, V]
    router_ids: dict[int, torch.Tensor]  # layer: [n, k]
    values: dict[int, Values]


class Recorder:
    """Runs the model and collects named tensors."""

    def __init__(self, model: torch.nn.Module, tokens: torch.Tensor):
        self.tensors: dict[str, torch.Tensor] = {"tokens": tokens}
        self.routed_rows = 0
        self.tied_rows = 0
        self._model = model
        self._tokens = tokens

    def cache(self) -> DynamicCache:
        """An empty state for one sequence."""
        return DynamicCache(config=self._model.config)

    def run(
        self, first: int, end: int, cache: DynamicCache, layers: set[int] | None = None
    ) -> Result:
        """Feed tokens first..end-1 in one call, after the content of CACHE."""
        taps = Taps(self._model, layers or set())
        ids = self._tokens[first:end].to(torch.int64)[None]
        with taps.watch():
            out = self._model(input_ids=ids, past_key_values=cache, use_cache=True)
        self.routed_rows += sum(len(ids) for ids in taps.router_ids.values())
        self.tied_rows += taps.tied_rows
        return Result(taps.hidden, out.logits[0], taps.router_ids, taps.values)

    def add_call(self, prefix: str, result: Result, rows: int | None = None) -> None:
        """Store hidden and logits (the last ROWS rows, or all) and the router ids of all rows."""
        first = 0 if rows is None else max(0, len(result.hidden) - rows)
        self.tensors[f"{prefix}.hidden"] = result.hidden[first:]
        self.tensors[f"{prefix}.logits"] = result.logits[first:]
        for layer, ids in result.router_ids.items():
            self.tensors[f"{prefix}.router_ids.{layer}"] = ids

    def prefill(self) -> None:
        """Fresh prompts of several lengths."""
        for length in PREFILL_LENGTHS:
            result = self.run(0, length, self.cache())
            self.add_call(f"prefill.{length}", result, PREFILL_ROWS)

    def decode(self) -> None:
        """A short prompt, then token after token."""
        cache = self.cache()
        self.run(0, DECODE_FROM, cache)
        steps = [self.run(i, i + 1, cache) for i in range(DECODE_FROM, DECODE_TO)]
        together = Result(
            hidden=torch.cat([step.hidden for step in steps]),
            logits=torch.cat([step.logits for step in steps]),
            router_ids={
                layer: torch.cat([step.router_ids[layer] for step in steps])
                for layer in steps[0].router_ids
            },
            values={},
        )
        self.add_call("decode", together)

    def ops(self, layers: "OpLayers") -> None:
        """Every op of the chosen layers, within one chunk and across a chunk border."""
        for length in OP_LENGTHS:
            result = self.run(0, length, self.cache(), layers.all())
            for layer, values in result.values.items():
                gdn = getattr(self._model.model.layers[layer], "linear_attn", None)
                for tap, tensor in selected(values, layer, layers, gdn).items():
                    kept = tensor if tap in ALL_ROWS else tensor[OP_ROWS[length]]
                    self.tensors[f"op.{length}.{layer}.{tap}"] = kept
                if layer == layers.gdn:
                    self.add_head(f"op.{length}.{layer}", values, layers.head)

    def warm(self, layers: "OpLayers") -> None:
        """Several tokens, then one, on a stored state: both forms of the delta rule, warm."""
        cache = self.cache()
        self.run(0, WARM_PROMPT, cache)
        middle = WARM_PROMPT + WARM_TOKENS
        for prefix, first, end in (
            (f"warm{WARM_TOKENS}", WARM_PROMPT, middle),
            ("step1", middle, middle + 1),
        ):
            result = self.run(first, end, cache, layers.all())
            self.add_call(prefix, result)
            if layers.gdn is not None:
                self.add_head(f"{prefix}.{layers.gdn}", result.values[layers.gdn], layers.head)

    def add_head(self, prefix: str, values: Values, head: int) -> None:
        """The delta rule of one value head: all inputs and outputs."""
        found = {
            "g": values["linear_attn.g"][:, head],
            "beta": values["linear_attn.beta"][:, head],
            "core_out": values["linear_attn.core_out"][:, head],
        }
        for tap in (
            "q",
            "k",
            "v",
        ):  # after the convolution, before the L2 norm; q and k of the shared key head
            found[tap] = values[f"delta.{tap}"][:, head]
        for tap in ("state_in", "state_out"):
            if f"delta.{tap}" in values:
                found[tap] = values[f"delta.{tap}"][head]
        for tap in HEAD_TAPS:
            if tap in found:
                self.tensors[f"{prefix}.linear_attn.head.{tap}"] = found[tap]
        self.tensors[f"{prefix}.linear_attn.head.index"] = torch.tensor([head], dtype=torch.int32)


@dataclass(frozen=True)
class OpLayers:
    """The layers that are recorded op by op, and the value head of the GDN layer. None: the model has none.

    dense: the first layer with a dense MLP in a mixture of experts.
    """

    gdn: int | None
    attention: int
    mlp: int
    dense: int | None
    head: int

    def all(self) -> set[int]:
        """Each layer once."""
        return {self.gdn, self.attention, self.mlp, self.dense} - {None}

    @staticmethod
    def choose(model: torch.nn.Module, args: Namespace) -> "OpLayers":
        """The requested layers, or the first of each kind; each must have the right kind."""
        text = model.config
        kinds = getattr(text, "layer_types", None) or ["full_attention"] * text.num_hidden_layers

        def pick(option: str, wanted: int | None, kind: str) -> int:
            layer = kinds.index(kind) if wanted is None else wanted
            if not 0 <= layer < len(kinds) or kinds[layer] != kind:
                raise FixtureError(f"{option} {layer}: not a {kind} layer (the model has {kinds})")
            return layer

        attention = pick("--attn-layer", args.attn_layer, "full_attention")
        mlp = attention if args.moe_layer is None else args.moe_layer
        if not 0 <= mlp < len(kinds):
            raise FixtureError(f"--moe-layer {mlp}: the model has {len(kinds)} layers")
        mixtures = [hasattr(layer.mlp, "experts") for layer in model.model.layers]
        dense = mixtures.index(False) if any(mixtures) and not all(mixtures) else None
        if "linear_attention" not in kinds:
            return OpLayers(None, attention, mlp, dense, 0)
        gdn = pick("--gdn-layer", args.gdn_layer, "linear_attention")
        # Head 1 distinguishes h // r from h mod nK if heads share keys.
        head = min(1, text.linear_num_value_heads - 1) if args.head is None else args.head
        if not 0 <= head < text.linear_num_value_heads:
            raise FixtureError(
                f"--head {head}: the model has {text.linear_num_value_heads} value heads"
            )
        return OpLayers(gdn, attention, mlp, dense, head)


def selected(values: Values, layer: int, layers: OpLayers, gdn: torch.nn.Module | None) -> Values:
    """The taps of one layer for the file: those of the block, and of the sublayers that it was
    chosen for."""
    values = dict(values)
    if "linear_attn.in_proj_qkvz" in values:
        values |= split_next_projections(
            gdn, values["linear_attn.in_proj_qkvz"], values["linear_attn.in_proj_ba"]
        )
    left_out = ["delta."]
    if layer not in (layers.gdn, layers.attention):
        left_out += ["linear_attn.", "self_attn."]
    if layer not in (layers.mlp, layers.dense):
        left_out.append("mlp.")
    mlp_outputs = ("mlp.out", "mlp.down_proj")  # part of the block: they enter the second residual
    return {
        tap: tensor
        for tap, tensor in values.items()
        if tap in mlp_outputs or not tap.startswith(tuple(left_out))
    }


def record(args: Namespace) -> int:
    """The `record` subcommand."""
    model = load_strictly(args.checkpoint, args.class_name, DTYPES[args.dtype])
    vocabulary = model.config.vocab_size
    ids_used = vocabulary if args.ids_used is None else args.ids_used
    if not 1 <= ids_used <= vocabulary:
        raise FixtureError(f"--ids-used {ids_used}: the vocabulary has {vocabulary} ids")
    layers = OpLayers.choose(model, args)
    recorder = Recorder(model, tokens_for(TOKENS, ids_used))
    recorder.prefill()
    recorder.decode()
    recorder.ops(layers)
    recorder.warm(layers)
    metadata = metadata_for(args.class_name, args.dtype)
    metadata["checkpoint_sha256"] = checkpoint_digest(args.checkpoint)
    metadata["ids_used"] = str(ids_used)
    size = write_tensors(args.output, recorder.tensors, metadata)
    print(f"{args.output}: {len(recorder.tensors)} tensors, {size / 1024:.1f} KiB")
    if recorder.tied_rows:
        print(
            f"{recorder.tied_rows} of {recorder.routed_rows} routed rows hold equal router logits"
        )
    report_sizes(recorder.tensors)
    return 0


def report_sizes(tensors: dict[str, torch.Tensor]) -> None:
    """Print the sizes of a recording's tensors on stderr."""
    groups: dict[str, int] = {}
    for name, tensor in tensors.items():
        parts = name.split(".")
        group = ".".join(parts[:2]) if parts[0] in ("op", "prefill") else parts[0]
        groups[group] = groups.get(group, 0) + tensor.numel() * tensor.element_size()
    for group, size in groups.items():
        print(f"  {group:12} {size / 1024:8.1f} KiB", file=sys.stderr)

#!/usr/bin/env python3
"""Write what transformers computes as a trace (docs/trace.md): every tap that it has, level 4.

The prompt is fed in one call, then the other tokens one by one. Everything is the pure torch path on
the CPU, as in tools/gen/hf_fixtures.py. --experts eager sums the experts in another order, and
--router-weights f32 keeps router weights unrounded as transformers did before 5.3: choices that
`samebit diff --explain` is to name.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gen"))

import torch  # noqa: E402
from hf_models import (  # noqa: E402
    CLASSES,
    DTYPES,
    FixtureError,
    load_strictly,
    metadata_for,
    prepare_torch,
    tokens_for,
    write_tensors,
)
from hf_taps import Taps, split_next_projections  # noqa: E402
from trace_writer import TraceWriter  # noqa: E402
from transformers import DynamicCache  # noqa: E402

# Names of hf_taps that are others here, and those that have no counterpart (None).
RENAMED = {
    "mlp.act": "mlp.swiglu",
    "mlp.down_proj": "mlp.out",
    "mlp.experts": None,
    "linear_attn.in_proj_qkvz": None,
    "linear_attn.in_proj_ba": None,
}


class TorchTrace(TraceWriter):
    """The types of torch, bfloat16 among them, and the same bytes every time."""

    def save(self, tensors: dict, path: str) -> None:
        write_tensors(Path(path), tensors, {})


def keep_router_weights(model: torch.nn.Module) -> None:
    """Router weights as before they were cast: the softmax of the logits, renormalised, in float32."""

    def unrounded(_module, _args, out):
        logits, _weights, ids = out
        p = torch.softmax(logits.float(), dim=-1).gather(1, ids)
        return logits, p / p.sum(dim=-1, keepdim=True), ids

    for layer in model.model.layers:
        layer.mlp.gate.register_forward_hook(unrounded)


def named(layer: int, values: dict, model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The values of one layer under the names of docs/trace.md, [rows, columns]."""
    gdn = getattr(model.model.layers[layer], "linear_attn", None)
    values = dict(values)
    if "linear_attn.in_proj_qkvz" in values:
        values |= split_next_projections(
            gdn, values["linear_attn.in_proj_qkvz"], values["linear_attn.in_proj_ba"]
        )
    found = {}
    for tap, tensor in values.items():
        name = RENAMED.get(tap, tap)
        if name is None or tap == "input" or tap.startswith("delta."):
            continue
        if tap == "mlp.router_ids":
            tensor = tensor.to(torch.int32)
        found[f"layers.{layer}.{name}"] = tensor.reshape(tensor.shape[0], -1)
    if layer == 0:
        found["embed"] = values["input"]
    return found


def pieces(cache: DynamicCache) -> dict[str, torch.Tensor]:
    """The state of the sequence, in the layouts of docs/state.md."""
    found = {}
    for index, layer in enumerate(cache.layers):
        name = f"state.0.layers.{index}"
        if hasattr(layer, "recurrent_states"):
            # transformers keeps one column of the convolution more than it needs
            found[f"{name}.linear_attn.conv_state"] = layer.conv_states[0][0, :, 1:].transpose(0, 1)
            found[f"{name}.linear_attn.recurrent_state"] = layer.recurrent_states[0][0]
        else:
            found[f"{name}.self_attn.keys"] = layer.keys[0].transpose(0, 1)
            found[f"{name}.self_attn.values"] = layer.values[0].transpose(0, 1)
    return {name: tensor.clone() for name, tensor in found.items()}


def call(model: torch.nn.Module, tokens: torch.Tensor, cache: DynamicCache) -> dict[str, torch.Tensor]:
    """One forward call: its taps."""
    layers = range(model.config.num_hidden_layers)
    taps = Taps(model, set(layers))
    with taps.watch():
        out = model(input_ids=tokens.to(torch.int64)[None], past_key_values=cache, use_cache=True)
    found = {}
    for layer in layers:
        found |= named(layer, taps.values[layer], model)
    return found | {"norm": taps.hidden, "logits": out.logits[0]}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--class", dest="class_name", choices=CLASSES, required=True)
    parser.add_argument("--dtype", choices=sorted(DTYPES), required=True)
    parser.add_argument("--ids-used", type=int, required=True)
    parser.add_argument("--prompt", type=int, default=6, metavar="ROWS")
    parser.add_argument("--decode", type=int, default=2, metavar="CALLS")
    parser.add_argument("--experts", choices=("grouped_mm", "eager"), default="grouped_mm")
    parser.add_argument("--router-weights", choices=("act", "f32"), default="act")
    parser.add_argument("--checkpoint-digest", help="as `samebit run --trace` writes it")
    parser.add_argument("--states", action="store_true", help="with the states before each call")
    args = parser.parse_args()
    try:
        prepare_torch()
        model = load_strictly(args.checkpoint, args.class_name, DTYPES[args.dtype])
        if args.experts != "grouped_mm":
            model.config._experts_implementation = args.experts
        if args.router_weights == "f32":
            keep_router_weights(model)
        tokens = tokens_for(args.prompt + args.decode, args.ids_used)
        about = metadata_for(args.class_name, args.dtype)
        engine = "transformers {transformers}, torch {torch} on {cpu_capability}".format(**about)
        writer = TorchTrace(
            args.output,
            engine=f"{engine}, experts {args.experts}, router weights {args.router_weights}",
            profile="hf" if args.dtype == "bf16" else "exact",
            vocab_size=model.config.vocab_size,
            **({"checkpoint": args.checkpoint_digest} if args.checkpoint_digest else {}),
            level=4 if args.states else 2,
        )
        cache, at = DynamicCache(config=model.config), 0
        for rows in [args.prompt] + [1] * args.decode:
            ids = tokens[at : at + rows]
            state = pieces(cache) if args.states and at else {}
            writer.step(
                [
                    # given, not emitted
                    {"sequence": 0, "slot": 0, "position": at + i, "token": int(t), "kind": "prompt"}
                    for i, t in enumerate(ids)
                ],
                state | call(model, ids, cache),
                logits_rows=list(range(rows)),
                rounds=[],
                states=[{"sequence": 0, "position": at}] if args.states else [],
            )
            at += rows
        if args.states:
            last = [{"sequence": 0, "position": at}]
            writer.step([], pieces(cache), rounds=[], states=last)
        writer.finish()
    except FixtureError as error:
        print(f"hf_trace.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Records what transformers computes as a trace (docs/trace.md) while it runs.

In your own script, for any model of the Qwen3, Qwen3-Next, Qwen3.5 and Qwen3.6 classes:

    from hf import record
    with record(model, "t"):
        model.generate(ids, max_new_tokens=20, do_sample=False)

or from a shell: the prompt in one or several calls, then -n greedy tokens.

    hf.py CKPT OUT --tokens 1,2,3 [-n 8] [--dtype bf16|f32] [--attn eager|sdpa] [--taps GLOBS]

--taps takes names of docs/trace.md with * and ?, separated by commas, or all or none; state.* are the states
before each call. Each sequence of a batch becomes a sequence of the trace, without padding. Calls that are
partly undone (assisted generation) are refused: transformers does not report the number of accepted drafts.

From a shell everything is the pure torch path on the CPU, in one thread. --experts eager sums the experts in
another order, and --router-weights f32 keeps router weights unrounded as transformers did before 5.3.
`samebit diff --explain` should find these choices.
"""

import argparse
import fnmatch
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gen"))

import torch  # noqa: E402
import transformers  # noqa: E402
from hf_models import DTYPES, FixtureError, class_of, load_strictly, prepare_torch  # noqa: E402
from hf_taps import Taps, flat, split_next_projections, text_model  # noqa: E402
from samebit_trace import Sequence, Trace  # noqa: E402
from transformers import DynamicCache  # noqa: E402

# Names of hf_taps that differ here; None: no counterpart.
RENAMED = {
    "mlp.act": "mlp.swiglu",
    "mlp.down_proj": "mlp.out",
    "mlp.experts": None,
    "linear_attn.in_proj_qkvz": None,
    "linear_attn.in_proj_ba": None,
}


class RecordError(FixtureError):
    """Something that cannot be recorded; raised inside the model's call."""


class Choice:
    """The selected taps: --taps."""

    def __init__(self, taps: str) -> None:
        self.patterns = [pattern for pattern in taps.split(",") if pattern and pattern != "none"]

    def __contains__(self, name: str) -> bool:
        state = name.startswith("state.")
        return any(not state if p == "all" else fnmatch.fnmatchcase(name, p) for p in self.patterns)

    def states(self) -> bool:
        """True if states are selected."""
        return any(p.startswith("state.") for p in self.patterns)

    def ops(self) -> bool:
        """True if taps of level 4 are selected."""
        return any(not p.startswith("state.") and p != "logits" for p in self.patterns)


def named(layer: int, found: dict, model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The values of one layer under the names of docs/trace.md, [rows, columns]."""
    gdn = getattr(text_model(model).layers[layer], "linear_attn", None)
    found = dict(found)
    if "linear_attn.in_proj_qkvz" in found:
        qkvz, ba = (found[f"linear_attn.in_proj_{name}"] for name in ("qkvz", "ba"))
        found |= split_next_projections(gdn, flat(qkvz) if qkvz.dim() > 2 else qkvz, ba)
    taps = {"embed": found["input"]} if layer == 0 else {}
    for tap, tensor in found.items():
        name = RENAMED.get(tap, tap)
        if name is None or tap == "input" or tap.startswith("delta."):
            continue
        if tap == "mlp.router_ids":
            tensor = tensor.to(torch.int32)
        taps[f"layers.{layer}.{name}"] = tensor.reshape(tensor.shape[0], -1)
    return taps


def pieces(cache: DynamicCache, index: int, kept: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """The state of one sequence of a batch, in the layouts of docs/state.md; kept: columns without padding."""
    found = {}
    for number, layer in enumerate(cache.layers):
        name = f"layers.{number}"
        if hasattr(layer, "recurrent_states"):
            # transformers keeps one column of the convolution more than it needs
            conv = layer.conv_states[0][index, :, 1:]
            found[f"{name}.linear_attn.conv_state"] = conv.transpose(0, 1)
            found[f"{name}.linear_attn.recurrent_state"] = layer.recurrent_states[0][index]
        else:
            keys, wide = layer.keys[index].transpose(0, 1), layer.values[index].transpose(0, 1)
            found[f"{name}.self_attn.keys"] = keys if kept is None else keys[kept]
            found[f"{name}.self_attn.values"] = wide if kept is None else wide[kept]
    return found


class Recorder:
    """The hooks; use record()."""

    def __init__(
        self, model: torch.nn.Module, folder: Any, taps: str, given: bool, sampling: dict | None, head: dict
    ) -> None:
        self.model, self.choice, self.given, self.sampling = model, Choice(taps), given, sampling
        self.begun: set[int] = set()  # sequences whose sampler is declared
        config = getattr(model.config, "text_config", model.config)
        level = (4 if self.choice.ops() else 3) if self.choice.states() else 2
        torch_version = torch.__version__
        usual = {"engine": f"transformers {transformers.__version__}, torch {torch_version}"}
        self.trace = Trace(folder, vocab_size=config.vocab_size, level=level, **(usual | head))
        self.taps = Taps(model, set(range(len(text_model(model).layers))) if self.choice.ops() else set())
        self.caches: list[tuple[DynamicCache, list[Sequence]]] = []  # sequences that may continue
        self.masks: dict[int, torch.Tensor] = {}  # per sequence: the columns that are no padding
        self.call: Any = None

    def __enter__(self) -> "Recorder":
        with ExitStack() as stack:
            stack.enter_context(self.trace)
            stack.enter_context(self.taps.watch())
            for hook in (
                self.model.register_forward_pre_hook(self._before, with_kwargs=True),
                self.model.register_forward_hook(self._after, with_kwargs=True),
            ):
                stack.callback(hook.remove)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self._last_states()
        self._stack.__exit__(kind, error, trace)

    def _sequences(self, cache: Any, batch: int) -> list[Sequence]:
        """The sequences that this cache continues; new ones for an empty or an unknown cache."""
        past = cache.get_seq_length() if cache is not None else 0
        for known, sequences in self.caches:
            if known is cache and past:
                if len(sequences) != batch or any(past != len(self.masks[s.number]) for s in sequences):
                    raise RecordError(f"the cache has {past} positions, which is not what the previous call left")
                return sequences
        fresh = [self._fresh(past) for _ in range(batch)]
        self.masks |= {s.number: torch.ones(past, dtype=torch.bool) for s in fresh}
        return fresh

    def _fresh(self, past: int) -> Sequence:
        # every sequence has its own cache
        return self.trace.sequence(position=past, slot=self.trace.sequences())

    def _state(self, call: Any, cache: Any, sequence: Sequence, index: int) -> None:
        mask = self.masks[sequence.number]
        found = pieces(cache, index, None if mask.all() else mask) if len(mask) else {}
        prefix = f"state.{sequence.number}."
        call.state(sequence, {name: t for name, t in found.items() if prefix + name in self.choice})

    def _before(self, _model: Any, args: tuple, kwargs: dict) -> None:
        """Records the fed tokens, and the states that the call will read."""
        ids = kwargs.get("input_ids", args[0] if args else None)
        if ids is None:
            raise RecordError("the call has no input_ids, and embeddings do not say which tokens were fed")
        cache, mask = kwargs.get("past_key_values"), kwargs.get("attention_mask")
        batch, rows = ids.shape
        sequences = self._sequences(cache, batch)
        kept = torch.ones(batch, rows, dtype=torch.bool)
        if mask is not None and mask.dim() == 2:
            kept = mask[:, -rows:].bool().cpu()
        call = self.trace.call()
        for i, sequence in enumerate(sequences):
            if self.choice.states():
                self._state(call, cache, sequence, i)
            tokens = ids[i].cpu()[kept[i]].tolist()
            if rows == 1 and sequence.position and not self.given:
                call.decode(sequence, tokens[0])
            elif tokens:
                call.prompt(sequence, tokens)
            if self.sampling is not None and tokens and sequence.number not in self.begun:
                call.sampling(sequence, **self.sampling)
                self.begun.add(sequence.number)
            self.masks[sequence.number] = torch.cat([self.masks[sequence.number], kept[i]])
        self.call = (call, sequences, kept)
        for found in self.taps.values.values():
            found.clear()

    def _after(self, _model: Any, _args: tuple, kwargs: dict, out: Any) -> None:
        """Records the observed values."""
        call, sequences, kept = self.call
        (batch, rows), count = kept.shape, out.logits.shape[1]
        index = kept.reshape(-1).nonzero()[:, 0]
        for layer, found in self.taps.values.items():
            for name, tensor in named(layer, found, self.model).items():
                if name in self.choice:
                    call.tensor(name, tensor[index.to(tensor.device)])
        if "norm" in self.choice:
            call.tensor("norm", self.taps.hidden[index.to(self.taps.hidden.device)])
        made = torch.zeros_like(kept)
        made[:, rows - count :] = kept[:, rows - count :]  # generate() requests only the last row of a prompt
        logits = out.logits[kept[:, rows - count :].to(out.logits.device)]
        call.logits(logits, rows=made.reshape(-1)[index].nonzero()[:, 0].tolist())
        call.write()
        cache = getattr(out, "past_key_values", None) or kwargs.get("past_key_values")
        self.caches = [(c, s) for c, s in self.caches if c is not cache]
        if cache is not None:
            self.caches.append((cache, sequences))

    def _last_states(self) -> None:
        """A step without rows: the final state of every sequence."""
        if not self.choice.states() or not self.caches:
            return
        with self.trace.call() as call:
            for cache, sequences in self.caches:
                for i, sequence in enumerate(sequences):
                    self._state(call, cache, sequence, i)


def record(
    model: torch.nn.Module,
    folder: Any,
    taps: str = "all",
    given: bool = False,
    sampling: dict | None = None,
    **head: Any,
) -> Recorder:
    """Write the calls of MODEL inside the `with` to FOLDER. given: all tokens are given, none generated.
    sampling: how generate() draws, by the keys of U-12 in docs/trace.md, for example {"temperature": 0.7,
    "top_k": 50, "sampler": "transformers", "seed": None}. head: arguments of Trace, including engine, profile, checkpoint (as printed by `samebit hash`)."""
    return Recorder(model, folder, taps, given, sampling, head)


def keep_router_weights(model: torch.nn.Module) -> None:
    """Uncast router weights: the softmax of the logits, renormalised, in float32."""

    def unrounded(_module, _args, out):
        logits, _weights, ids = out
        p = torch.softmax(logits.float(), dim=-1).gather(1, ids)
        return logits, p / p.sum(dim=-1, keepdim=True), ids

    for layer in text_model(model).layers:
        if hasattr(layer.mlp, "gate"):  # else a dense MLP
            layer.mlp.gate.register_forward_hook(unrounded)


def feed(model: torch.nn.Module, tokens: list[int], calls: list[int], count: int) -> list[int]:
    """One sequence: TOKENS in CALLS, then COUNT tokens, each the largest logit; returns these."""
    cache, at, made = DynamicCache(config=model.config), 0, []
    for rows in calls:
        ids = torch.tensor([tokens[at : at + rows]])
        out = model(input_ids=ids, past_key_values=cache, use_cache=True)
        at += rows
    while len(made) < count:
        made.append(int(out.logits[0, -1].argmax()))
        if len(made) < count:
            out = model(input_ids=torch.tensor([made[-1:]]), past_key_values=cache, use_cache=True)
    return made


def numbers(text: str) -> list[int]:
    """1,2,3"""
    return [int(number) for number in text.split(",")]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("checkpoint", type=Path, metavar="CKPT")
    parser.add_argument("output", type=Path, metavar="OUT")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--tokens", type=numbers, metavar="IDS", help="the prompt")
    source.add_argument("--tokens-file", type=Path, metavar="F", help="a prompt per line")
    parser.add_argument("-n", type=int, default=0, metavar="N", help="tokens to generate (0)")
    parser.add_argument("--calls", type=numbers, metavar="ROWS", help="rows of each call of the prompt: 6,1,1")
    parser.add_argument("--class", dest="class_name", help="class of transformers (the one that config.json names)")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="bf16")
    parser.add_argument("--attn", default="eager", help="attention: eager (default), sdpa, ...")
    parser.add_argument("--experts", default="grouped_mm", help="experts: grouped_mm (default), eager, ...")
    parser.add_argument("--router-weights", choices=("act", "f32"), default="act")
    parser.add_argument("--taps", default="all", metavar="GLOBS", help="taps: all (default), none, names, state.*")
    parser.add_argument("--checkpoint-digest", metavar="HEX", help="digest of CKPT, as `samebit hash` prints it")
    args = parser.parse_args()
    lines = args.tokens_file.read_text().split("\n") if args.tokens_file else []
    args.prompts = [args.tokens] if args.tokens else [numbers(line) for line in lines if line.strip()]
    if args.calls and any(sum(args.calls) != len(prompt) for prompt in args.prompts):
        parser.error(f"--calls has {sum(args.calls)} rows, expected the number of tokens of every prompt")
    return args


def main() -> int:
    """Load, record, print the generated tokens."""
    args = arguments()
    try:
        prepare_torch()
        name = args.class_name or class_of(args.checkpoint)
        model = load_strictly(args.checkpoint, name, DTYPES[args.dtype], args.attn, args.experts)
        if args.router_weights == "f32":
            keep_router_weights(model)
        engine = f"transformers {transformers.__version__}, torch {torch.__version__}"
        engine += f" on {torch.backends.cpu.get_cpu_capability()}, experts {args.experts}"
        head = {"engine": engine + f", router weights {args.router_weights}"}
        if args.attn == "eager":  # the profiles of the others are unknown
            head["profile"] = "hf" if args.dtype == "bf16" else "exact"
        else:
            head["note"] = f"attention {args.attn}"
        if args.checkpoint_digest:
            head["checkpoint"] = args.checkpoint_digest
        with record(model, args.output, args.taps, given=args.n == 0, **head):
            for prompt in args.prompts:
                made = feed(model, prompt, args.calls or [len(prompt)], args.n)
                if made:
                    print("tokens " + ",".join(map(str, made)))
    except (FixtureError, OSError, ValueError) as error:
        print(f"hf.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

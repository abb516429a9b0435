#!/usr/bin/env python3
"""Tests the writing half of the plug-ins, with stand-ins for the engines: plugins_test.py PLAIN ROUNDS OUT

PLAIN (a prompt of one token) and ROUNDS are traces without and with drafts, all taps and states. The stand-ins
replay them through the calls of the real engines, as NumPy arrays in the engines' layouts. The plug-ins write
OUT/vllm, OUT/sglang, OUT/mlx and OUT/again. Then tests what the writer must refuse. exit status: 0 all passed,
1 something failed
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace as Thing

import mlx_plugin
import numpy as np
import sglang_plugin
import vllm_plugin
from engine_calls import EngineCalls, Fed
from mlx_taps import Watched
from samebit_trace import Bf16, Trace, TraceError, read_tensors, values

VOCAB, HEADS, STATE = 384, (2, 64), (4, 64, 64)  # of preset T1
failed = 0


def check(what: str, good: bool) -> None:
    """Prints a line for a failed check."""
    global failed
    if not good:
        failed = 1
        print(f"plugins_test.py: {what}", file=sys.stderr)


def refused(what: str, act) -> None:
    """act() must be refused."""
    try:
        act()
    except TraceError:
        return
    check(f"not refused: {what}", False)


def calls_of(folder: Path) -> list[Thing]:
    """The calls of the trunk, with their tensors; the last has the states at the end."""
    trace, found = json.loads((folder / "trace.json").read_text()), []
    for step in trace["steps"]:
        tensors, _ = read_tensors(folder / f"step-{step['step']:06}.safetensors")
        if not step["rows"] or step["rows"][0]["kind"] != "draft":
            found.append(Thing(rows=step["rows"], rounds=step.get("rounds", []), tensors=tensors))
    return found


def whole(calls: list[Thing]) -> list[Thing]:
    """Without a last round that -n cut short (U-4): an engine reports all tokens that a round gave."""
    return [call for call in calls if not call.rounds or len(call.rounds[0]["emitted"]) > call.rounds[0]["accepted"]]


# vLLM: a scheduler's output, a runner that gives logits and what was sampled


def play_vllm(calls: list[Thing], out: Path) -> None:
    now = Thing()

    class Runner:
        model = Thing(compute_logits=lambda hidden: hidden)

        def execute_model(self, scheduled):
            now.logits = self.model.compute_logits(now.call.tensors["logits"][-now.made :])

        def sample_tokens(self, grammar):
            self.model.compute_logits(np.zeros((1, VOCAB), np.float32))  # prompt logprobs: not these
            now.logits[:] = 0  # like samplers do
            return Thing(get_output=lambda: Thing(req_ids=["a"], sampled_token_ids=[now.sampled]))

    runner = Runner()
    recording = vllm_plugin.Recording(runner, EngineCalls(out, "stand-in of vllm", VOCAB))
    for number, call in enumerate(calls[:-1]):
        rows = call.rows
        drafts = call.rounds[0]["drafts"] if call.rounds else []
        now.call, now.made = Thing(tensors={"logits": call.tensors["logits"].copy()}), 1 + len(drafts)
        following = calls[number + 1].rows
        now.sampled = call.rounds[0]["emitted"] + [-1] if call.rounds else [following[0]["token"]]
        new = Thing(req_id="a", prompt_token_ids=[r["token"] for r in rows], num_computed_tokens=0)
        runner.execute_model(
            Thing(
                scheduled_new_reqs=[] if number else [new],
                scheduled_cached_reqs=Thing(
                    req_ids=["a"] if number else [], num_computed_tokens=[rows[0]["position"]] if number else []
                ),
                num_scheduled_tokens={"a": len(rows)},
                scheduled_spec_decode_tokens={"a": drafts} if drafts else {},
                finished_req_ids=set(),
            )
        )
        runner.sample_tokens(None)
    recording.stop()
    check("vllm: the runner is not as it was", "execute_model" not in vars(runner))


# SGLang: batches with their mode, and verify() after the call


def play_sglang(calls: list[Thing], out: Path) -> None:
    class Mode:
        def __init__(self, name: str) -> None:
            self.is_target_verify = lambda: name == "verify"
            self.is_decode = lambda: name == "decode"
            self.is_idle = lambda: False

    recording = sglang_plugin.Recording(EngineCalls(out, "stand-in of sglang", VOCAB), len(calls) - 1)
    for call in calls[:-1]:
        rows = call.rows
        batch = Thing(
            rids=["a"],
            forward_mode=Mode(rows[0]["kind"]),
            input_ids=np.array([r["token"] for r in rows]),
            positions=np.array([r["position"] for r in rows]),
            extend_seq_lens=[len(rows)],
        )
        made = len(rows) if call.rounds else 1
        padded = np.pad(call.tensors["logits"][-made:], ((0, 0), (0, 128)))
        recording.forward(batch, Thing(logits_output=Thing(next_token_logits=padded)))
        if call.rounds:
            emitted = call.rounds[0]["emitted"]
            following = np.array((emitted + [0] * len(rows))[: len(rows)])
            recording.verified(Thing(accept_lens=np.array([len(emitted)]), next_token_ids=following))
    tree = Thing(rids=["a"], forward_mode=Mode("verify"), input_ids=np.array([1, 2, 3]), positions=np.array([4, 5, 5]))
    refused("a tree of drafts", lambda: sglang_plugin.requests_of(tree))


# mlx-lm: a model of modules, a cache of arrays

SEEN = ("input_layernorm", "post_attention_layernorm")
SEEN += tuple(f"linear_attn.{name}" for name in ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj"))
SEEN += tuple(f"self_attn.{name}" for name in ("k_proj", "v_proj", "q_norm", "k_norm"))


def play_mlx(calls: list[Thing], out: Path) -> None:
    now = Thing(call=None)

    def module(tap: str):
        class Module:
            def __call__(self, _given=None):
                return now.call.tensors[tap][None]

        return Module()

    class Block(Thing):
        """The MLP of a layer: its own output, and modules inside it."""

        def __call__(self):
            return now.call.tensors[self.tap][None]

    last = max(int(name.split(".")[1]) for name in calls[0].tensors if name.startswith("layers."))
    layers, made = [], []
    for number in range(last + 1):
        layer = Thing(linear_attn=Thing(), self_attn=Thing(), mlp=Block(tap=f"layers.{number}.mlp.out"))
        read = {"input_layernorm": f"layers.{number - 1}.output" if number else "embed"}
        read["post_attention_layernorm"] = f"layers.{number}.attn_residual"
        for name in SEEN:
            tap = f"layers.{number}.{name}"
            if tap in calls[0].tensors:
                *path, leaf = name.split(".")
                owner = getattr(layer, path[0]) if path else layer
                setattr(owner, leaf, module(tap))
                made.append((owner, leaf, read.get(leaf)))
        layers.append(layer)
        made.append((layer, "mlp", None))
    trunk = Thing(norm=module("norm"), embed_tokens=module("embed"))
    made += [(trunk, "norm", f"layers.{last}.output"), (trunk, "embed_tokens", None)]

    class Model:
        args, model = Thing(vocab_size=VOCAB), trunk

        def __init__(self):
            self.layers = layers

        def __call__(self, tokens, cache):
            for owner, leaf, given in made:
                getattr(owner, leaf)(*([now.call.tensors[given][None]] if given in now.call.tensors else []))
            return now.call.tensors["logits"][None]

    cache = [None] * len(layers)

    def fill(call: Thing) -> None:
        """Fills the caches with their content before a call, in the layouts of mlx-lm."""
        for number in range(len(layers)):
            mine = f"state.0.layers.{number}."
            piece = {n.rsplit(".", 1)[1]: t for n, t in call.tensors.items() if n.startswith(mine)}
            if "keys" in piece:
                heads = [piece[n].reshape(-1, *HEADS).transpose(1, 0, 2)[None] for n in ("keys", "values")]
                wide = [np.pad(array, ((0, 0), (0, 0), (0, 9), (0, 0))) for array in heads]
                cache[number] = Thing(offset=len(piece["keys"]), keys=wide[0], values=wide[1])
            elif piece:
                state = piece["recurrent_state"].reshape(STATE).transpose(0, 2, 1)
                cache[number] = [piece["conv_state"][None], state[None]]

    with mlx_plugin.record(Model(), out, given=1, states=True, taps=True, engine="stand-in of mlx-lm") as recorded:
        for call in calls[:-1]:
            now.call = call
            fill(call)
            recorded(np.array([[row["token"] for row in call.rows]]), cache=cache)
        fill(calls[-1])
    check("mlx: a module was left behind", not isinstance(trunk.norm, Watched))
    for number, (call, again) in enumerate(zip(calls, calls_of(out), strict=True)):
        check(f"mlx: step {number} has few arrays", len(again.tensors) > 8)
        for name, tensor in again.tensors.items():
            same = np.array_equal(tensor.reshape(len(tensor), -1), call.tensors[name].reshape(len(tensor), -1))
            check(f"mlx: {name} is another array", same)


def the_writer(out: Path) -> None:
    """Tests types, misuse, and the files after an exception."""
    wide = np.array([1, 1.00390625, 1.01171875, -3e38, np.inf, np.nan, 1e-40], "<f4")
    nearest = Bf16.rounded(wide).floats()
    check("bfloat16: ties to even", list(nearest[:3]) == [1, 1, 1.015625] and np.isnan(nearest[5]))
    check("bfloat16: infinity", nearest[4] == np.inf and nearest[3] < -2.9e38)
    try:
        import torch
    except ImportError:
        torch = None
    if torch:
        there = torch.tensor(wide).to(torch.bfloat16)
        check("bfloat16 as torch rounds it", np.array_equal(values(there).floats()[:5], nearest[:5]))
    try:
        with Trace(out, engine="mine", vocab_size=9) as trace:
            with trace.call() as call:
                call.prompt(trace.sequence(), [1])
            raise KeyError("of the engine")
    except KeyError:
        pass
    check("an exception left a trace.json", not (out / "trace.json").exists())
    s = trace.sequence()
    row = {"sequence": 0, "position": 0, "token": 1, "kind": "prompt"}
    refused("a token outside the vocabulary", lambda: trace.step([row | {"token": 9}]))
    refused("too few rows", lambda: trace.step([row], {"norm": wide[:0]}))
    refused("float64", lambda: trace.step([], {"state.0.x": np.zeros(3)}))
    refused("uint16", lambda: trace.step([], {"state.0.x": np.zeros(3, np.uint16)}))
    refused("accepted more than drafted", lambda: trace.call().verify(s, 1, [2], 2, [2, 3]))
    call = trace.call()
    call.decode(s, 1)
    refused("fed twice", lambda: call.decode(s, 1))
    refused("a key that is none", lambda: Trace(out / "x", engine="mine", vocab_size=9, colour="red"))
    calls = EngineCalls(out.parent / "bf16", "mine", 9)
    calls.call([Fed("a", 0, [1, 2], 2)], Bf16.rounded(np.ones((1, 16))))  # padded, like vLLM's logits
    calls.finish()
    logits = read_tensors(out.parent / "bf16" / "step-000000.safetensors")[0]["logits"]
    check("logits in bfloat16", logits.shape == (1, 9) and logits.floats().sum() == 9)
    refused("no slot", lambda: Trace(out / "y", engine="mine", vocab_size=9, level=2).sequence())


def hits_and_samplers(out: Path) -> None:
    """A request that begins with the blocks of another one names its parent; each request declares its sampler."""
    calls = EngineCalls(out, "mine", 9)
    first = {"temperature": 0.5, "seed": 7, "generator": "torch_cpu", "presence_penalty": 0.5}
    logits = np.ones((1, 9), np.float32)
    calls.call([Fed("a", 0, [1, 2, 3], 3, before=[], sampling=first)], logits)
    calls.call([Fed("a", 3, [4], 3, before=[1, 2, 3], sampling=first)], logits)
    calls.forget("a")
    calls.call([Fed("b", 2, [5, 6], 4, before=[1, 2])], logits)
    calls.call([Fed("c", 2, [5, 6], 4, before=[1, 8])], logits)
    calls.call([Fed("a", 0, [1, 2], 3, before=[], sampling=first)], logits)
    calls.call([Fed("a", 0, [1, 2, 3, 4], 3, before=[], sampling=first)], logits)  # preempted
    calls.finish()
    steps = json.loads((out / "trace.json").read_text())["steps"]
    parents = [step.get("prefixes") for step in steps]
    parent = [{"sequence": 1, "parent": 0, "position": 2}]
    check(f"parents are {parents}", parents == [None, None, parent, None, None, None])
    samplers = [step.get("sampling") for step in steps]
    rest = [{"sequence": 4, "temperature": 0.5}]
    expected = [[{"sequence": 0, **first}], None, None, None, [{"sequence": 3, **first}], rest]
    check(f"samplers are {samplers}", samplers == expected)
    usual = {"temperature": 1.0, "top_p": 0.9, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
    params = Thing(**usual, presence_penalty=0.0, frequency_penalty=0.0, seed=42, logit_bias=None)
    found = vllm_plugin.sampling(params, True)
    check(f"vLLM declares {found}", found["top_k"] == 0 and found["generator"] == "torch_cpu" and found["seed"] == 42)
    params.logit_bias = {3: 1.0}
    check("vLLM declares a sampler that it does not have", vllm_plugin.sampling(params, True) is None)


def draft_steps() -> None:
    """In a draft step only the logits have padding columns: a projection wider than the vocabulary is not
    cut."""
    found = {"mtp.logits": [np.ones((1, 6), np.float32)], "mtp.layers.0.self_attn.q_proj": [np.ones((3, 8), np.float32)]}
    head = Thing(taps=Thing(found=found), last=np.array([2]))
    (step,) = vllm_plugin.Head.steps(head, 4)
    shapes = {name: part.shape for name, part in step.items()}
    check(f"draft steps have {shapes}", shapes == {"mtp.logits": (1, 4), "mtp.layers.0.self_attn.q_proj": (1, 8)})


def main() -> int:
    plain, rounds, out = calls_of(Path(sys.argv[1])), whole(calls_of(Path(sys.argv[2]))), Path(sys.argv[3])
    out.mkdir()
    play_vllm(rounds, out / "vllm")
    play_vllm(plain, out / "vllm-plain")
    play_sglang(rounds, out / "sglang")
    play_sglang(plain, out / "sglang-plain")
    play_mlx(plain, out / "mlx")
    the_writer(out / "broken")
    draft_steps()
    hits_and_samplers(out / "hits")
    return failed


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""EAGLE-3 drafters of speculators, and what speculators computes: eagle3.py OUT [all|made].

Runs in build/venv-speculators (make engines). OUT/NAME is a drafter for `samebit make --preset T4 --recipe
predictable`, as speculators saves it; OUT/NAME.expect.safetensors has random states of a target, tokens, the logits of
every row, and the logits and drafts of a chain after the last row. Those of golden/drafts/eagle3 are trained for some seconds,
so that the target accepts their drafts; the others, with "all", have random weights. With "made" it is the other way
round: `samebit make --drafter eagle3` writes the drafters, and speculators loads them. The weights are BF16, and the
computation is in binary64.
"""

import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from speculators.config import SpeculatorsConfig, VerifierConfig
from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig
from speculators.proposals.greedy import GreedyTokenProposalConfig
from transformers import LlamaConfig, Qwen3Config

WIDTH, HEADS, VOCABULARY, DRAFTED, DRAFTS, ROWS = 128, 2, 384, 288, 4, 9  # speculators has no other width than the target's
STEPS = 300
AFTER = [1, 2, 4]  # layers of the target
PROGRAM = os.environ.get("SAMEBIT", str(pathlib.Path(os.environ.get("BUILD", "build")) / "samebit"))
TARGET = ["--preset", "T4", "--recipe", "predictable"]
KEPT = ("llama-10-none", "llama-11-norm_before_fc", "qwen3-01-fc_norm")


def variants():
    """Names, and the keys that differ."""
    for kind, residual, output, norm in itertools.product(
        ("llama", "qwen3"), (False, True), (False, True), ("none", "fc_norm", "norm_before_fc")
    ):
        keys = {"norm_before_residual": residual, "norm_output": output} | ({} if norm == "none" else {norm: True})
        yield f"{kind}-{int(residual)}{int(output)}-{norm}", kind, keys


def module(kind, keys):
    """The drafter with random weights."""
    layer = (LlamaConfig if kind == "llama" else Qwen3Config)(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=WIDTH // 2,
        num_hidden_layers=1,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 2,
        head_dim=32,
        max_position_embeddings=256,
        attn_implementation="eager",
    )
    proposals = SpeculatorsConfig(
        algorithm="eagle3",
        proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=DRAFTS)],
        default_proposal_method="greedy",
        verifier=VerifierConfig(name_or_path=None, architectures=["Qwen3_5ForCausalLM"]),
    )
    config = Eagle3SpeculatorConfig(
        transformer_layer_config=layer,
        draft_vocab_size=DRAFTED,
        target_hidden_size=WIDTH,
        eagle_aux_hidden_state_layer_ids=AFTER,
        speculators_config=proposals,
        **keys,
    )
    torch.manual_seed(42)
    made = Eagle3DraftModel(config).eval()
    ids = torch.sort(torch.randperm(VOCABULARY)[:DRAFTED]).values  # the tokens that can be drafted
    known = torch.zeros(VOCABULARY, dtype=torch.bool)
    known[ids] = True
    made.load_vocab_mappings(known, ids - torch.arange(DRAFTED))
    for name, parameter in made.named_parameters():
        std, mean = (0.1, 1.0) if parameter.dim() == 1 else (parameter.shape[-1] ** -0.5, 0.0)
        torch.nn.init.normal_(parameter, mean=mean, std=1.0 if name.startswith("embed") else std)
    return made, ids


def successors():
    """The token that the target writes after each token."""
    with tempfile.TemporaryDirectory() as work:
        folder, file = os.path.join(work, "target"), os.path.join(work, "tokens")
        subprocess.run([PROGRAM, "make", folder, *TARGET], check=True, stdout=subprocess.DEVNULL)
        pathlib.Path(file).write_text("".join(f"{token}\n" for token in range(VOCABULARY)), encoding="ascii")
        said = subprocess.run([PROGRAM, "run", folder, "--tokens-file", file, "-n", "1", "--json"], check=True, capture_output=True)
    return torch.tensor([sequence["tokens"][0] for sequence in json.loads(said.stdout)["sequences"]])


def train(made, ids, follows):
    """Teaches the drafter to guess the successor, whatever the states are. The embedding stays as it is."""
    rows = torch.full((VOCABULARY,), -100)  # no loss for tokens that it cannot draft
    rows[ids] = torch.arange(DRAFTED)
    seen = []
    hook = made.lm_head.register_forward_hook(lambda _module, _args, out: seen.append(out))
    learned = [parameter for name, parameter in made.named_parameters() if not name.startswith("embed")]
    for parameter in learned:
        parameter.requires_grad_(True)
    rule = torch.optim.Adam(learned, lr=2e-3)
    for _ in range(STEPS):
        seen.clear()
        tokens = torch.randint(VOCABULARY, (1, 128))
        made(torch.randn(1, 128, 3 * WIDTH), tokens, document_ids=torch.zeros_like(tokens), ttt_steps=2)
        chained = rows[follows[tokens[0].roll(-1)]]  # the second step reads the next token
        chained[-1] = -100
        loss = torch.nn.functional.cross_entropy(seen[0][0], rows[follows[tokens[0]]], ignore_index=-100)
        loss = loss + torch.nn.functional.cross_entropy(seen[1][0], chained, ignore_index=-100)
        rule.zero_grad()
        loss.backward()
        rule.step()
    hook.remove()


def rounded(made):
    """The drafter with weights that BF16 holds."""
    for parameter in made.parameters():
        parameter.requires_grad_(False)
        parameter.data = parameter.data.to(torch.bfloat16).to(torch.float64)
    return made.to(torch.float64)


@torch.no_grad()
def expected(made, ids):
    """Rows and a chain: a call with K rows of padding, whose tokens are the drafts of the call before (they are read one
    step later), until all are known."""
    draw = torch.Generator().manual_seed(7)
    states = torch.randn(1, ROWS, 3 * WIDTH, generator=draw, dtype=torch.float64).to(torch.float32).to(torch.float64)
    tokens = torch.randint(VOCABULARY, (1, ROWS), generator=draw)
    seen = []
    hook = made.lm_head.register_forward_hook(lambda _module, _args, out: seen.append(out))
    drafts = []
    for step in range(DRAFTS):
        seen.clear()
        padding = torch.tensor([drafts + [0] * (DRAFTS - len(drafts))])
        wide = torch.cat([states, torch.zeros(1, DRAFTS, 3 * WIDTH, dtype=states.dtype)], 1)
        row = torch.cat([tokens, padding], 1)
        made(wide, row, document_ids=torch.zeros_like(row), ttt_steps=DRAFTS)
        drafts.append(int(ids[seen[step][0, ROWS - 1].argmax()]))
    hook.remove()
    return {
        "states": states[0].to(torch.float32).contiguous(),
        "tokens": tokens[0].to(torch.int32),
        "logits": seen[0][0, :ROWS].contiguous(),
        "chain": torch.stack([out[0, ROWS - 1] for out in seen]).contiguous(),
        "drafts": torch.tensor(drafts, dtype=torch.int32),
    }


def made_by_samebit(target, folder, kind, keys):
    """A drafter of `samebit make`, as speculators loads it. Those of kind llama have the embedding of the target."""
    flags = [key for key, on in keys.items() if on] + (["qwen3", "own_embedding"] if kind == "qwen3" else [])
    asked = ["--drafter", "eagle3", "--draft-vocab", str(DRAFTED)] + (["--flags", ",".join(flags)] if flags else [])
    subprocess.run([PROGRAM, "make", folder, *TARGET, *asked, "--replace"], check=True, stdout=subprocess.DEVNULL)
    config = pathlib.Path(folder, "config.json")
    config.write_text(config.read_text().replace('"name_or_path": null', f'"name_or_path": "{target}"'), encoding="ascii")
    read = Eagle3SpeculatorConfig.from_pretrained(folder)
    read.transformer_layer_config._attn_implementation = "eager"
    made, tensors = Eagle3DraftModel.from_pretrained(folder, config=read), load_file(f"{folder}/model.safetensors")
    loaded = {name: value for name, value in made.state_dict().items() if not name.startswith("verifier")}
    if set(loaded) - set(tensors) - {"embed_tokens.weight"}:
        raise SystemExit(f"{folder}: speculators has {sorted(loaded)}, and the file {sorted(tensors)}")
    if not all(torch.equal(loaded[name].to(value.dtype), value) for name, value in tensors.items()):
        raise SystemExit(f"{folder}: speculators has loaded other values")
    if kind == "llama":  # what speculators 0.9.0 copies from the target changes from run to run
        for shard in target.glob("*.safetensors"):
            held = load_file(str(shard))
            if "model.embed_tokens.weight" in held:
                made.embed_tokens.weight.data = held["model.embed_tokens.weight"]
    return made.eval(), tensors["d2t"] + torch.arange(DRAFTED)


def main():
    """Writes the folders."""
    torch.set_num_threads(1)
    out = pathlib.Path(sys.argv[1])
    if "made" in sys.argv[2:]:
        out.mkdir(parents=True, exist_ok=True)
        target = (out / "target").resolve()
        subprocess.run([PROGRAM, "make", target, *TARGET, "--replace"], check=True, stdout=subprocess.DEVNULL)
        for name, kind, keys in variants():
            made, ids = made_by_samebit(target, str(out / name), kind, keys)
            save_file(expected(rounded(made), ids), str(out / f"{name}.expect.safetensors"))
        return
    follows = successors()
    for name, kind, keys in variants():
        if name not in KEPT and "all" not in sys.argv[2:]:
            continue
        made, ids = module(kind, keys)
        if name in KEPT:
            train(made, ids, follows)
        made = rounded(made)
        out.mkdir(parents=True, exist_ok=True)
        save_file(expected(made, ids), str(out / f"{name}.expect.safetensors"))
        made.to(torch.bfloat16).save_pretrained(out / name)
        (out / name / "config.py").unlink()  # a copy of a source of speculators


main()

#!/usr/bin/env python3
"""Train two small models with their MTP heads on texts of the distribution.

  train_small.py SAMEBIT OUT [NAME...]     write OUT/NAME, a checkpoint in BF16, of every model, and
                                           OUT/NAME-bare, the same without its head

NAME is one of MODELS, or NAME-SEED for another seed: its head does not belong to the model NAME.

Random weights do not have the statistics of learned weights. SAMEBIT writes the configuration and
the tokenizer. transformers computes the trunk; the head is the module below, because transformers
lacks it (docs/mtp.md defines it). Trunk and head are trained together, with one thread and fixed
seeds. Other files or another processor give other weights, so golden/trained holds the smaller of
the two models.

exit status: 0 done, 1 it did not learn, 2 wrong use
"""

import hashlib
import json
import math
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import hf_models  # first: it sets the environment of transformers
import torch
import transformers
from tokenizers import Tokenizer
from torch import nn
from torch.nn.functional import cross_entropy

SEED = 42
LENGTH, ROWS = 128, 8  # of a batch
HEAD_SHARE = 0.3  # weight of the head's loss relative to the trunk's
# Licences and manuals: plain English, available on every Debian with perl.
TEXTS = (("/usr/share/common-licenses", "*"), ("/usr/share/perl", "**/*.pod"))


@dataclass(frozen=True)
class Model:
    """A preset of `samebit make`, its changes, and the length of the training."""

    preset: str
    changes: dict
    steps: int
    rate: float


MODELS = {
    "dense": Model("T4", {"intermediate_size": 128}, 600, 4e-3),
    "moe": Model("T3", {}, 350, 4e-3),
}


class Head(nn.Module):
    """The MTP head: fc of the next token's embedding and the hidden state, then one layer."""

    def __init__(self, model: nn.Module):
        super().__init__()
        config = model.config
        size, full = config.hidden_size, config.layer_types.index("full_attention")
        norm, layer = type(model.model.norm), type(model.model.layers[full])
        self.pre_fc_norm_embedding = norm(size, eps=config.rms_norm_eps)
        self.pre_fc_norm_hidden = norm(size, eps=config.rms_norm_eps)
        self.fc = nn.Linear(2 * size, size, bias=False)
        self.layers = nn.ModuleList([layer(config, full)])
        self.norm = norm(size, eps=config.rms_norm_eps)
        self.apply(model._init_weights)

    def forward(self, trunk: nn.Module, hidden: torch.Tensor, following: torch.Tensor):
        """Hidden states of the head at each position, from those of TRUNK and the next tokens."""
        embedded = self.pre_fc_norm_embedding(trunk.embed_tokens(following))
        x = self.fc(torch.cat([embedded, self.pre_fc_norm_hidden(hidden)], dim=-1))
        rows, length = following.shape
        positions = torch.arange(length).expand(3, rows, length)
        unseen = torch.full((length, length), -math.inf).triu(1)[None, None]
        turns = trunk.rotary_emb(x, positions)
        return self.norm(self.layers[0](x, position_embeddings=turns, attention_mask=unseen))


def texts() -> list[Path]:
    """The files without links, in the order of their names."""
    found = [p for folder, glob in TEXTS for p in sorted(Path(folder).glob(glob))]
    return [p for p in found if p.is_file() and not p.is_symlink()]


def tokens_of(tokenizer: Path) -> tuple[torch.Tensor, list[dict]]:
    """All texts as one row of ids, and the files with their hashes."""
    encode, ids, files = Tokenizer.from_file(str(tokenizer)).encode, [], []
    for path in texts():
        content = path.read_bytes()
        ids += encode(content.decode("utf-8", "replace")).ids
        files.append({"file": str(path), "sha256": hashlib.sha256(content).hexdigest()})
    return torch.tensor(ids), files


def prepare(samebit: Path, folder: Path, model: Model) -> dict:
    """Configuration and tokenizer of the model, without weights; returns the configuration."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(
        [samebit, "make", folder, "--preset", model.preset, "--tokenizer"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    for path in folder.glob("*.safetensors*"):
        path.unlink()
    config = json.loads((folder / "config.json").read_text()) | model.changes
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return config


def losses(model: nn.Module, head: Head, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross entropy of the trunk for the next token and of the head for the token after it."""
    hidden = model.model(input_ids=batch[:, :-2], use_cache=False).last_hidden_state
    drafted = head(model.model, hidden, batch[:, 1:-1])
    pairs = ((hidden, batch[:, 1:-1]), (drafted, batch[:, 2:]))
    return tuple(cross_entropy(model.lm_head(h).flatten(0, 1), t.flatten()) for h, t in pairs)


def train(model: nn.Module, head: Head, ids: torch.Tensor, plan: Model, seed: int) -> tuple:
    """Train both; returns the losses of the first and of the last ten steps."""
    every = dict(model.named_parameters()) | dict(head.named_parameters(prefix="mtp"))
    matrices = [p for p in every.values() if p.dim() > 1]
    vectors = [p for p in every.values() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=plan.rate, betas=(0.9, 0.95))
    generator, seen = torch.Generator().manual_seed(seed), []
    for step in range(plan.steps):
        for group in optimizer.param_groups:
            warm, rest = min(1.0, (step + 1) / 20), 1.0 - step / plan.steps
            group["lr"] = plan.rate * warm * (0.05 + 0.95 * rest)
        begins = torch.randint(len(ids) - LENGTH - 2, (ROWS,), generator=generator).tolist()
        trunk, drafts = losses(model, head, torch.stack([ids[b : b + LENGTH + 2] for b in begins]))
        optimizer.zero_grad()
        (trunk + HEAD_SHARE * drafts).backward()
        nn.utils.clip_grad_norm_(list(every.values()), 1.0)
        optimizer.step()
        seen.append((trunk.item(), drafts.item()))
        if step % 50 == 0:
            print(f"  step {step}: trunk {seen[-1][0]:.3f}, head {seen[-1][1]:.3f}", flush=True)
    return seen[0], [sum(column) / 10 for column in zip(*seen[-10:])]


def write(folder: Path, tensors: dict[str, torch.Tensor]) -> None:
    """The weights, in BF16."""
    hf_models.write_tensors(
        folder / "model.safetensors",
        {name: value.to(torch.bfloat16) for name, value in tensors.items()},
        {"format": "pt", "torch": torch.__version__, "transformers": transformers.__version__},
    )


def make_one(samebit: Path, folder: Path) -> None:
    """Write the checkpoint of the model that the folder is named after."""
    name, _, seed = folder.name.partition("-")
    plan, seed = MODELS[name], int(seed or SEED)
    config = prepare(samebit, folder, plan)
    ids, files = tokens_of(folder / "tokenizer.json")
    torch.manual_seed(seed)
    cls = hf_models.model_class(config["architectures"][0])
    options = {"attn_implementation": "eager", "dtype": torch.float32}
    if cls.__name__ in hf_models.MOE_CLASSES:
        options["experts_implementation"] = "eager"
    model = cls._from_config(cls.config_class.from_pretrained(folder), **options)
    head = Head(model)
    first, last = train(model, head, ids, plan, seed)
    print(
        f"{folder.name}: {len(files)} files, {len(ids)} tokens, {plan.steps} steps;"
        f" cross entropy of the trunk {first[0]:.3f} -> {last[0]:.3f},"
        f" of the head {first[1]:.3f} -> {last[1]:.3f}"
    )
    tensors = model.state_dict() | head.state_dict(prefix="mtp.")
    if config["tie_word_embeddings"]:
        del tensors["lm_head.weight"]
    write(folder, tensors)
    bare = folder.with_name(f"{folder.name}-bare")  # for quantizers that drop the head
    shutil.copytree(folder, bare, dirs_exist_ok=True)
    text = json.dumps(config | {"mtp_num_hidden_layers": 0}, indent=2)
    (bare / "config.json").write_text(text + "\n")
    write(bare, {name: tensors[name] for name in tensors if not name.startswith("mtp.")})
    rows = {"files": files, "cross_entropy": {"first": first, "last": last}}
    folder.with_name(f"{folder.name}.training.json").write_text(json.dumps(rows, indent=1) + "\n")
    if not (last[0] < 0.5 * first[0] and last[1] < 0.6 * first[1]):
        raise hf_models.FixtureError(f"{folder}: it did not learn")


def main() -> int:
    """The command line."""
    if len(sys.argv) < 3 or any(name.partition("-")[0] not in MODELS for name in sys.argv[3:]):
        print(__doc__, file=sys.stderr)
        return 2
    samebit, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    hf_models.prepare_torch()
    torch.set_grad_enabled(True)
    out.mkdir(parents=True, exist_ok=True)
    try:
        for name in sys.argv[3:] or MODELS:
            make_one(samebit, out / name)
    except (hf_models.FixtureError, OSError, subprocess.CalledProcessError) as error:
        print(f"train_small.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

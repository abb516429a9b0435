"""A first draft of speculators, on the CPU: speculators_run.py, in its environment (tools/gen/engines/make.sh).

Makes an EAGLE-3 module with random weights of seed 42, and three drafts for each of eight positions, twice. Prints
version, drafts and a digest of the logits; exit status 1 if the second run has other bits.
"""

import hashlib
import sys
from importlib.metadata import version

import torch
from speculators.config import SpeculatorsConfig, VerifierConfig
from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig
from speculators.proposals.greedy import GreedyTokenProposalConfig
from transformers import Qwen3Config

WIDTH, HEADS, VOCABULARY, DRAFTED, DRAFTS, ROWS = 64, 4, 384, 128, 3, 8


def module():
    """The module; its embedding and head are NaN until they are loaded."""
    layer = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=1,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 2,
        head_dim=WIDTH // HEADS,
        max_position_embeddings=256,
        attn_implementation="eager",
    )
    proposals = SpeculatorsConfig(
        algorithm="eagle3",
        proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=DRAFTS)],
        default_proposal_method="greedy",
        verifier=VerifierConfig(name_or_path=None, architectures=["Qwen3ForCausalLM"]),
    )
    config = Eagle3SpeculatorConfig(
        transformer_layer_config=layer,
        draft_vocab_size=DRAFTED,
        norm_before_residual=True,
        target_hidden_size=WIDTH,
        speculators_config=proposals,
    )
    torch.manual_seed(42)
    made = Eagle3DraftModel(config).eval()
    ids = torch.arange(DRAFTED) * (VOCABULARY // DRAFTED)  # the tokens that can be drafted
    known = torch.zeros(VOCABULARY, dtype=torch.bool)
    known[ids] = True
    made.load_vocab_mappings(known, ids - torch.arange(DRAFTED))
    for part in (made.embed_tokens, made.lm_head):
        torch.nn.init.normal_(part.weight, std=0.02)
    return made


@torch.no_grad()
def drafted():
    """The drafts, and the digest of their logits."""
    made, seen = module(), hashlib.sha256()
    made.lm_head.register_forward_hook(lambda _module, _args, out: seen.update(out.numpy().tobytes()))
    hidden = torch.randn(1, ROWS, 3 * WIDTH, generator=torch.Generator().manual_seed(42))
    ids = torch.arange(ROWS)[None]
    found = made(hidden, ids, document_ids=torch.zeros_like(ids), ttt_steps=DRAFTS)
    tokens = found[0] if isinstance(found, tuple) else found
    return [step[0].tolist() for step in tokens], seen.hexdigest()


def main():
    """Drafts twice."""
    torch.set_num_threads(1)
    first, again = drafted(), drafted()
    print(f"speculators {version('speculators')}, torch {torch.__version__}: drafts {first[0]}, logits {first[1][:32]}")
    print("twice: same bits" if first == again else "twice: other bits")
    sys.exit(first != again)


main()

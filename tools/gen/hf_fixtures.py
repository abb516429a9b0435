#!/usr/bin/env python3
"""Make and record Hugging Face fixtures: an independent source for what these models compute.

Run it with the interpreter that tools/gen/venv.sh makes; the versions of torch and transformers
are part of what is recorded. Results are those of the pure torch path on the CPU with one thread,
eager attention and grouped_mm experts. They are deterministic on one machine. Another CPU may
differ in the last bits of a matrix product, so comparisons with a recording must allow for that.

exit status: 0 done, 1 the checkpoint does not fit or a limit was exceeded, 2 wrong use
"""

import argparse
import sys
from pathlib import Path

SMALL_HELP = """write small random checkpoints of the three classes to OUTDIR/{moe,dense,next} with
save_pretrained, and next to each NAME.expect.safetensors: tokens, hidden (after the final norm),
logits, router_ids.LAYER of a prompt of 9 tokens, computed in f32 from what was written"""

YARN_HELP = """write inv_freq, the factor of cos and sin, and both for some positions, for several configurations"""

RECORD_HELP = """load CHECKPOINT strictly and write to OUTPUT:
  tokens                      token i = (7 i^2 + 13 i + 5) mod IDS_USED
  prefill.N.hidden, .logits   the last two rows of a prompt of N = 1, 3, 63, 64, 65, 129 tokens
  prefill.N.router_ids.LAYER  the experts of every row, in the order of torch.topk
  decode.*                    tokens 3..15 fed one by one after a prompt of 3
  op.N.LAYER.TAP              inputs and outputs of every op of the chosen layers, N = 3 and 65
                              (65: rows 0, 62, 63, 64; inputs of ops that look back keep all rows)
  op.N.LAYER.linear_attn.head.*
                              the delta rule of one value head, all rows, with its state [dk, dv]; none in
                              a model without linear attention
  warm4.*, step1.*            four tokens, then one, on the state after a prompt of 3; the same head
Tensors keep the type they have in transformers."""

LOAD_HELP = """load each CHECKPOINT in the class of its config.json; list every tensor that is missing, unexpected
or of a wrong shape (exit 1 if any), or print "CHECKPOINT: ok" """


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    from hf_models import CLASSES, DTYPES

    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    small = commands.add_parser(
        "small",
        help="write small checkpoints and what they compute",
        description=SMALL_HELP,
        formatter_class=raw,
    )
    small.add_argument("outdir", type=Path, metavar="OUTDIR")

    yarn = commands.add_parser("yarn", help="write the frequencies of the rotation yarn", description=YARN_HELP)
    yarn.add_argument("output", type=Path, metavar="OUTPUT")

    record = commands.add_parser(
        "record",
        help="record what a checkpoint computes",
        description=RECORD_HELP,
        formatter_class=raw,
    )
    record.add_argument("checkpoint", type=Path, metavar="CHECKPOINT")
    record.add_argument("output", type=Path, metavar="OUTPUT")
    record.add_argument("--class", dest="class_name", choices=CLASSES, required=True)
    record.add_argument(
        "--dtype", choices=sorted(DTYPES), required=True, help="type the weights are loaded as"
    )
    record.add_argument(
        "--ids-used", type=int, metavar="N", help="ids below N are used (default: the vocabulary)"
    )
    record.add_argument(
        "--gdn-layer", type=int, metavar="I", help="default: the first linear attention layer, if any"
    )
    record.add_argument(
        "--attn-layer", type=int, metavar="J", help="default: the first full attention layer"
    )
    record.add_argument(
        "--moe-layer", type=int, metavar="M", help="layer whose MLP is recorded (default: J)"
    )
    record.add_argument(
        "--head", type=int, metavar="H", help="value head of layer I (default: 1, or 0 if alone)"
    )

    load = commands.add_parser(
        "load",
        help="only check that a checkpoint loads completely",
        description=LOAD_HELP,
        formatter_class=raw,
    )
    load.add_argument("checkpoints", type=Path, metavar="CHECKPOINT", nargs="+")
    return parser.parse_args()


def check_loading(args: argparse.Namespace) -> int:
    """The `load` subcommand."""
    import torch

    from hf_models import FixtureError, class_of, load

    status = 0
    for checkpoint in args.checkpoints:
        try:
            name = class_of(checkpoint)
            loaded = load(checkpoint, name, torch.float32)
        except FixtureError as error:
            print(error)
            status = 1
            continue
        for line in loaded.complaints():
            print(f"{checkpoint}: {line}")
            status = 1
        count = sum(1 for _ in loaded.model.parameters())
        if not loaded.complaints():
            print(f"{checkpoint}: ok, {count} parameters of {name}, {len(loaded.ignored)} ignored by the class")
    return status


def main() -> int:
    """Parse, prepare torch, run one subcommand."""
    args = parse_arguments()
    from hf_models import FixtureError, prepare_torch

    try:
        prepare_torch()
        if args.command == "small":
            from hf_small import small

            return small(args)
        if args.command == "yarn":
            from hf_yarn import yarn

            return yarn(args)
        if args.command == "record":
            from hf_record import record

            return record(args)
        return check_loading(args)
    except FixtureError as error:
        print(f"hf_fixtures.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

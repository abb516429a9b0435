#!/usr/bin/env python3
"""Make and record fixtures of quantized checkpoints, written and read by the real quantizers.

Each command runs with the interpreter of one environment that tools/gen/venv.sh makes; their
versions are part of what is recorded. Everything is computed on the CPU with one thread and is
deterministic on one machine; another CPU may differ in the last bits of a matrix product.

  command                       environment (tools/gen/quant/requirements-*.txt)
  codecs OUTPUT                 autoround
  input KIND FOLDER             any
  ct FOLDER...                  llmcompressor
  autoround FOLDER...           autoround
  modelopt FOLDER...            modelopt
  act-ct OUTPUT, load ...       llmcompressor
  act-modelopt OUTPUT           modelopt
  check GOLDEN LIVE             any

exit status: 0 done, 1 something does not fit or a limit was exceeded, 2 wrong use
"""

import argparse
import importlib
import sys
import tempfile
from pathlib import Path

FOLDERS_HELP = """quantize and record; the name of each FOLDER says what is made, next to it appear
NAME.expect.json: the digests of the library's dequantized weights, and NAME.expect.safetensors:
rows of them, and what a model with these weights computes for a prompt of 24 tokens"""

# command: (module, environment)
MAKERS = {"ct": "quant.ct", "autoround": "quant.autoround", "modelopt": "quant.mopt"}
WRITERS = {"codecs": "quant.codecs", "act-ct": "quant.ct_act", "act-modelopt": "quant.mopt_act"}


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in MAKERS:
        make = commands.add_parser(name, help="quantize and record", description=FOLDERS_HELP)
        make.add_argument("folders", type=Path, nargs="*", metavar="FOLDER")
        make.add_argument("--names", action="store_true", help="print the names there are")
    for name in WRITERS:
        write = commands.add_parser(name, help="write vectors of number formats or quantizers")
        write.add_argument("output", type=Path, metavar="OUTPUT")
    source = commands.add_parser("input", help="write the BF16 checkpoint of one kind")
    source.add_argument("kind", metavar="KIND")
    source.add_argument("folder", type=Path, metavar="FOLDER")
    load = commands.add_parser(
        "load", help="load a folder with transformers; write digests and logits to OUT.expect.*"
    )
    load.add_argument("folder", type=Path, metavar="FOLDER")
    load.add_argument("output", type=Path, metavar="OUT")
    check = commands.add_parser("check", help="compare a live recording with the committed one")
    check.add_argument("golden", type=Path, metavar="GOLDEN")
    check.add_argument("live", type=Path, metavar="LIVE")
    return parser.parse_args()


def make(args: argparse.Namespace) -> int:
    """The commands of MAKERS."""
    from quant import inputs, recipes

    known = getattr(recipes, args.command.upper())
    if args.names:
        print("\n".join(known))
        return 0
    for folder in args.folders:
        if folder.name not in known:
            raise inputs.FixtureError(f"{folder}: expected one of {', '.join(known)}")
    module = importlib.import_module(MAKERS[args.command])
    importlib.import_module("quant.taps").prepare_torch()
    for folder in args.folders:
        kind = known[folder.name][0]
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as work:
            source = Path(work) / kind
            inputs.make(source, kind)
            print(module.record(source, folder))
    return 0


def main() -> int:
    """Parse and run one command."""
    args = parse_arguments()
    try:
        return dispatch(args)
    except ModuleNotFoundError as error:
        print(
            f"quant_fixtures.py: {sys.executable} has no {error.name}:"
            " run this command in the environment that --help names",
            file=sys.stderr,
        )
        return 2


def dispatch(args: argparse.Namespace) -> int:
    """Run one command."""
    from quant.files import FixtureError

    try:
        if args.command in MAKERS:
            return make(args)
        if args.command in WRITERS:
            if args.command != "codecs":
                importlib.import_module("quant.taps").prepare_torch()
            print(importlib.import_module(WRITERS[args.command]).record(args.output))
            return 0
        if args.command == "input":
            importlib.import_module("quant.inputs").make(args.folder, args.kind)
            return 0
        if args.command == "load":
            importlib.import_module("quant.taps").prepare_torch()
            print(importlib.import_module("quant.hfload").load(args.folder, args.output))
            return 0
        return importlib.import_module("quant.check").check(args.golden, args.live)
    except FixtureError as error:
        print(f"quant_fixtures.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

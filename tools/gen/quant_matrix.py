#!/usr/bin/env python3
"""Write the folders of quant.matrix: small models quantized by three quantizers.

  quant_matrix.py sources              the kinds of source and the options of `samebit make`
  quant_matrix.py names                the folders: name, producer, kind, whether the head is kept
  quant_matrix.py claims FOLDER...     write FOLDER.claims, like make
  quant_matrix.py table OUTCOMES       the table of docs/check/quantizers.md, on stdout
  quant_matrix.py make PRODUCER SOURCES OUT [NAME...]
                                       write OUT/NAME, OUT/NAME.log, and the library's values:
                                       OUT/NAME.values.json and the checkpoint OUT/NAME.plain

make runs with the interpreter of the producer's environment (tools/gen/quant/requirements-*.txt).
claims also needs one. Each folder is written by its own process, forked after the imports, JOBS (1) of them at the
same time. A quantizer that fails leaves no folder, only its log; tools/gen/quant_matrix.sh judges both.

exit status: 0 done, 2 wrong use
"""

import importlib
import os
import shutil
import sys
import traceback
from pathlib import Path

from quant.matrix import PRODUCERS, SOURCES, Row

IMPORTS = {
    "llmcompressor": ["llmcompressor", "llmcompressor.modeling.moe.linearize", "quant.ct"],
    "autoround": ["auto_round", "quant.autoround", "quant.hfload"],
    "modelopt": ["modelopt.torch.quantization", "modelopt.torch.export", "quant.mopt"],
}


def child(producer: str, source: Path, folder: Path, row: Row) -> None:
    """Write one folder; its messages go to FOLDER.log."""
    log = os.open(folder.with_name(f"{folder.name}.log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    status = 1
    try:
        importlib.import_module("quant.matrix_make").make(producer, source, folder, row)
        status = 0
    except BaseException:  # noqa: BLE001  (the next quantizer runs in any case)
        traceback.print_exc()
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def make(producer: str, sources: Path, out: Path, names: list[str]) -> int:
    """Write the folders NAMES, or all of the producer."""
    rows = PRODUCERS[producer]
    unknown = [name for name in names if name not in rows]
    if unknown:
        print(f"quant_matrix.py: {unknown[0]}: expected one of {', '.join(rows)}", file=sys.stderr)
        return 2
    importlib.import_module("quant.taps").prepare_torch()
    for module in ["quant.matrix_make", *IMPORTS[producer]]:
        try:
            importlib.import_module(module)
        except ImportError as error:
            print(f"quant_matrix.py: {module}: {error}", file=sys.stderr)
    out.mkdir(parents=True, exist_ok=True)
    running: dict[int, str] = {}

    def reap() -> None:
        process, status = os.wait()
        print(f"{running.pop(process)}: {'written' if status == 0 else 'not written'}", flush=True)

    for name in names or rows:
        if len(running) >= int(os.environ.get("JOBS", "1")):
            reap()
        for old in (name, f"{name}.plain"):
            shutil.rmtree(out / old, ignore_errors=True)
        (out / f"{name}.values.json").unlink(missing_ok=True)
        process = os.fork()
        if process == 0:
            child(producer, sources / rows[name].kind, out / name, rows[name])
        running[process] = name
    while running:
        reap()
    return 0


def main() -> int:
    """The command line."""
    words = sys.argv[1:]
    if words == ["sources"]:
        for kind, options in SOURCES.items():
            print(kind, *options)
        return 0
    if words == ["names"]:
        for producer, rows in PRODUCERS.items():
            for name, row in rows.items():
                print(name, producer, row.kind, "head" if row.head else "-")
        return 0
    if len(words) == 2 and words[0] == "table":
        print(importlib.import_module("quant.matrix_table").table(Path(words[1])), end="")
        return 0
    if len(words) >= 2 and words[0] == "claims":
        for folder in map(Path, words[1:]):
            names = importlib.import_module("quant.claims").claimed(folder)
            if names:
                folder.with_name(f"{folder.name}.claims").write_text("".join(f"{n}\n" for n in names))
        return 0
    if len(words) >= 4 and words[0] == "make" and words[1] in PRODUCERS:
        return make(words[1], Path(words[2]), Path(words[3]), words[4:])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

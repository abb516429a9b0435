#!/usr/bin/env python3
"""Writes a trace that `samebit trace` and `samebit diff` read: docs/trace.md is the contract.

In the process of the engine, one call of step() per forward call, in their order:

    trace = TraceWriter("t", engine="mine 1.0", vocab_size=248320, level=1)
    trace.step(rows=[dict(sequence=0, position=5, token=11, kind="decode")],
               tensors={"logits": logits})
    trace.finish()

From a shell, for a look at how it goes: reads the trace FROM and writes it again, every number in
the type that is named.

    trace_writer.py FROM TO [F32|F16]

Needs numpy and safetensors.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy
from safetensors.numpy import load_file, save_file


class TraceWriter:
    def __init__(self, folder: str, **head: Any) -> None:
        self.folder = Path(folder)
        self.folder.mkdir()
        self.head = {"format": "samebit-trace", "version": 1, **head}
        self.steps: list[dict[str, Any]] = []

    def step(self, rows: list[dict[str, Any]], tensors: dict[str, Any] | None = None, **lists: Any) -> None:
        """rows: sequence, position, token, kind, and from level 2 on slot and round; lists: rounds, states,
        logits_rows. Axis 0 of a tensor are the rows."""
        number, tensors = len(self.steps), tensors or {}
        if tensors:
            path = self.folder / f"step-{number:06}.safetensors"
            self.save(tensors, f"{path}.part")
            Path(f"{path}.part").rename(path)
        self.steps.append({"step": number, "tensors": len(tensors), "rows": rows, **lists})

    def save(self, tensors: dict[str, Any], path: str) -> None:
        save_file({name: numpy.ascontiguousarray(t) for name, t in tensors.items()}, path)

    def finish(self) -> None:
        part = self.folder / "trace.json.part"
        part.write_text(json.dumps({**self.head, "steps": self.steps}))
        part.rename(self.folder / "trace.json")


def again(source: str, target: str, dtype: str) -> None:
    trace = json.loads((Path(source) / "trace.json").read_text())
    steps = trace.pop("steps")
    writer = TraceWriter(target, **{k: v for k, v in trace.items() if k not in ("format", "version")})
    for step in steps:
        path = Path(source) / f"step-{step.pop('step'):06}.safetensors"
        tensors = load_file(path) if step.pop("tensors") else {}
        kind = numpy.float16 if dtype == "F16" else numpy.float32
        tensors = {n: t.astype(kind if t.dtype.kind == "f" else numpy.int64) for n, t in tensors.items()}
        writer.step(tensors=tensors, **step)
    writer.finish()


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    again(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) == 4 else "F32")

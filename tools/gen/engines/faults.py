#!/usr/bin/env python3
"""Judges recordings of vLLM's inner values, without and with planted mistakes: faults.py (TRACES CKPT)...

TRACES is the output of vllm_record.py. `samebit diff` compares each trace with the reference under the profile below: each
op alone, and both sides running free. golden/engines/inside/vllm.json gets the results, and table.py writes them to
docs/engines.md. Exit status 1: the unchanged engine fails with --free, or a mistake is not found: no op fails alone that
passes without the mistake, and the free run passes.
"""

import argparse
import ast
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

BUILD = pathlib.Path(os.environ.get("BUILD", "build"))
SAMEBIT = os.environ.get("SAMEBIT", str(BUILD / "samebit"))
OUT = pathlib.Path("golden/engines/inside/vllm.json")
WORDS = ["--profile", "vllm-cpu"]  # options of diff
Verdicts = dict[str, Any]


def diff(checkpoint: str, trace: pathlib.Path, *more: str) -> dict[str, Any]:
    """The document of diff."""
    ran = subprocess.run(
        [SAMEBIT, "diff", checkpoint, "--engine", str(trace), *WORDS, *more, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode not in (0, 1, 4):
        return {"verdict": "REFUSED", "reason": ran.stderr.strip(), "ops": [], "rounds": [], "first_failure": None}
    return dict(json.loads(ran.stdout))


def rounds(document: dict[str, Any]) -> str:
    """The failures of the first failing round."""
    for entry in document["rounds"]:
        if entry["verdict"] != "FAIL":
            continue
        parts = [name for name, part in (entry["state"] or {}).items() if part and part["verdict"] == "FAIL"]
        for name in ("drafts", "accepted"):
            if entry[name]["ref"] != entry[name]["engine"]:
                parts.append(f"{name} {entry[name]['engine']}, reference {entry[name]['ref']}")
        return f"sequence {entry['sequence']}, round {entry['round']}: " + (", ".join(parts) or "FAIL")
    return ""


def judged(checkpoint: str, trace: pathlib.Path) -> Verdicts:
    """The verdicts of each op alone and of the free run, which does not use values of ops."""
    both, free = diff(checkpoint, trace), diff(checkpoint, trace, "--free")
    first = both["first_failure"]
    return {
        "verdict": both["verdict"],
        "free": free["verdict"],
        "ops": {op["op"]: [op["compared"], op["identical"], op["worst_ratio"]] for op in both["ops"] if op["compared"]},
        "not_judged": sorted(op["op"] for op in both["ops"] if not op["compared"]),
        "failed": sorted(op["op"] for op in both["ops"] if op["verdict"] == "FAIL"),
        "first": first and {key: first[key] for key in ("sequence", "token", "layer", "op", "tap")},
        "round": rounds(both),
        "reason": both["reason"],
    }


def described() -> dict[str, str]:
    """Descriptions of the mistakes: the docstrings of vllm_faults.py, which can be imported only with vLLM."""
    tree = ast.parse((pathlib.Path(__file__).parent / "vllm_faults.py").read_text(encoding="utf-8"))
    return {node.name: ast.get_docstring(node) or "" for node in tree.body if isinstance(node, ast.FunctionDef)}


def model(traces: pathlib.Path, checkpoint: str) -> dict[str, Any]:
    """All recordings of one model, starting with the unchanged engine."""
    what = {"none": "the engine as it is"} | described()
    found: list[Verdicts] = []
    for trace in sorted(traces.iterdir(), key=lambda path: list(what).index(path.name)):
        said = {"fault": trace.name, "what": what[trace.name]} | judged(checkpoint, trace)
        alone = set(said["failed"]) - set(found[0]["failed"] if found else ())
        said["found"] = bool(found) and bool(alone or said["free"] == "FAIL")
        print(f"{trace.name}: {said['verdict']}, alone {said['failed']}, {said['reason']}", flush=True)
        found.append(said)
    return {"model": pathlib.Path(checkpoint).name, "faults": found}


def main() -> None:
    """Writes the document again."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pairs", nargs="+", metavar="TRACES CKPT")
    pairs = parser.parse_args().pairs
    models = [model(pathlib.Path(traces), checkpoint) for traces, checkpoint in zip(pairs[::2], pairs[1::2], strict=True)]
    text = ",\n".join(json.dumps(found, separators=(",", ":")).replace('},{"fault', '},\n{"fault') for found in models)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(f'{{"options":{json.dumps(WORDS)},"models":[\n{text}\n]}}\n', encoding="ascii")
    missed = [said["fault"] for found in models for said in found["faults"][1:] if not said["found"]]
    print(f"not found: {', '.join(missed) or 'none'}")
    sys.exit(bool(missed) or any(found["faults"][0]["free"] == "FAIL" for found in models))


main()

#!/usr/bin/env python3
"""Judges recordings of an engine's inner values, without and with planted mistakes: faults.py ENGINE (TRACES CKPT)...

TRACES is the output of ENGINE_record.py. `samebit diff` compares each trace with the reference under the profile below: each
op alone, and both sides running free. golden/engines/inside/ENGINE.json gets the results, and table.py writes them to
docs/engines.md. Exit status 1: the unchanged engine fails with --free, or a mistake is not found: no op fails alone that
passes without the mistake, and the free run passes; or the first failing op is not the one that ENGINE_faults.py (for
llama.cpp tools/record/llamacpp/faults.def) names.
"""

import argparse
import ast
import json
import os
import pathlib
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

BUILD = pathlib.Path(os.environ.get("BUILD", "build"))
SAMEBIT = os.environ.get("SAMEBIT", str(BUILD / "samebit"))
OUT = pathlib.Path("golden/engines/inside")
PROFILES = {"llamacpp": "llamacpp", "mlx": "exact", "vllm": "vllm-cpu"}
Verdicts = dict[str, Any]


def diff(words: list[str], checkpoint: str, trace: pathlib.Path, *more: str) -> dict[str, Any]:
    """The document of diff."""
    ran = subprocess.run(
        [SAMEBIT, "diff", checkpoint, "--engine", str(trace), *words, *more, "--json"],
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


def judged(words: list[str], checkpoint: str, trace: pathlib.Path) -> Verdicts:
    """The verdicts of each op alone and of the free run, which does not use values of ops. The latter only where no op
    fails."""
    both = diff(words, checkpoint, trace)
    failed = sorted(op["op"] for op in both["ops"] if op["verdict"] == "FAIL")
    first = both["first_failure"]
    return {
        "verdict": both["verdict"],
        "free": diff(words, checkpoint, trace, "--free")["verdict"] if trace.name == "none" or not failed else None,
        "ops": {op["op"]: [op["compared"], op["identical"], op["worst_ratio"]] for op in both["ops"] if op["compared"]},
        "not_judged": sorted(op["op"] for op in both["ops"] if not op["compared"]),
        "failed": failed,
        "first": first and {key: first[key] for key in ("sequence", "token", "layer", "op", "tap")},
        "round": rounds(both),
        "reason": both["reason"],
    }


@dataclass
class Mistake:
    """A planted mistake: its description, and the op that must fail first, or ""."""

    what: str
    op: str = ""


def described(engine: str) -> dict[str, Mistake]:
    """The mistakes of ENGINE_faults.py, which can be imported only with the engine, or of llama.cpp's faults.def."""
    if engine == "llamacpp":
        text = (pathlib.Path(__file__).resolve().parents[2] / "record" / "llamacpp" / "faults.def").read_text(encoding="ascii")
        listed = re.findall(r'LLAMA_FAULT\((\w+), (\w+), "(.*)"\)', text)
        return {"none": Mistake("the engine as it is")} | {name: Mistake(what, op) for name, op, what in listed}
    tree = ast.parse((pathlib.Path(__file__).parent / f"{engine}_faults.py").read_text(encoding="utf-8"))
    found = {"none": Mistake("the engine as it is")}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            ops = [call.args[0].value for call in node.decorator_list]  # type: ignore[attr-defined]
            found[node.name] = Mistake(ast.get_docstring(node) or "", *ops)
    return found


def model(engine: str, words: list[str], traces: pathlib.Path, checkpoint: str) -> dict[str, Any]:
    """All recordings of one model, starting with the unchanged engine."""
    mistakes = described(engine)
    found: list[Verdicts] = []
    folders = sorted(traces.iterdir(), key=lambda path: list(mistakes).index(path.name))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        verdicts = list(pool.map(lambda trace: judged(words, checkpoint, trace), folders))
    for trace, verdict in zip(folders, verdicts, strict=True):
        mistake = mistakes[trace.name]
        said = {"fault": trace.name, "what": mistake.what} | verdict
        alone = set(said["failed"]) - set(found[0]["failed"] if found else ())
        there = not mistake.op or (said["first"] or {}).get("op") == mistake.op
        said["found"] = bool(found) and there and bool(alone or said["free"] == "FAIL")
        print(f"{trace.name}: {said['verdict']}, alone {said['failed']}, {said['reason']}", flush=True)
        if found:  # counts are kept of the unchanged engine only
            del said["ops"], said["not_judged"]
        found.append(said)
    return {"model": pathlib.Path(checkpoint).name, "faults": found}


def main() -> None:
    """Writes the document again."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("engine", choices=sorted(PROFILES))
    parser.add_argument("pairs", nargs="+", metavar="TRACES CKPT")
    parser.add_argument("--out", type=pathlib.Path, help="golden/engines/inside/ENGINE.json without it")
    options = parser.parse_args()
    pairs, words = options.pairs, ["--profile", PROFILES[options.engine]]
    models = [model(options.engine, words, pathlib.Path(traces), checkpoint) for traces, checkpoint in zip(pairs[::2], pairs[1::2], strict=True)]
    text = ",\n".join(json.dumps(found, separators=(",", ":")).replace('},{"fault', '},\n{"fault') for found in models)
    OUT.mkdir(exist_ok=True)
    (options.out or OUT / f"{options.engine}.json").write_text(f'{{"options":{json.dumps(words)},"models":[\n{text}\n]}}\n', encoding="ascii")
    missed = [said["fault"] for found in models for said in found["faults"][1:] if not said["found"]]
    print(f"not found: {', '.join(missed) or 'none'}")
    sys.exit(bool(missed) or any(found["faults"][0]["free"] == "FAIL" for found in models))


main()

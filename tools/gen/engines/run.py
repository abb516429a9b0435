#!/usr/bin/env python3
"""Runs the cases of an engine and judges them by the reference: run.py ENGINE [CASE...].

Needs the environment of the engine (make engines) and build/samebit. Each case writes build/engines/ENGINE/CASE.json: the
request, the engine's answer and counters or the reason of its refusal, and the verdicts. An answered case is not
run again, so that an interrupted run can continue; --anew runs it again. Without CASE, runs all cases.

    tokens     the engine's greedy tokens against those of `samebit run`
    counters   rounds, drafted tokens and accepted ones by depth against `samebit run --draft`, to the unit
    metrics    the same of a server, by `samebit accept --observed`
    values     log-probabilities against `samebit diff`, under the profile of the engine
    refusal    of a folder that the engine itself quantized: what `samebit check` says of it
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

from cases import ENGINES, SLICE, Case

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("BUILD", "build"))
SAMEBIT = os.environ.get("SAMEBIT", str(BUILD / "samebit"))
# The environment of an engine, where it has another name; llama.cpp: of its converter.
ENVIRONMENTS = {"llamacpp": "hf", "vllm_server": "vllm"}


def samebit(*words: str, good: tuple[int, ...] = (0,)) -> str:
    """The output of the program."""
    ran = subprocess.run([SAMEBIT, *words], capture_output=True, text=True, check=False)
    if ran.returncode not in good:
        raise SystemExit(f"samebit {' '.join(words)}: {ran.stderr.strip()}")
    return ran.stdout


def made(make: str) -> pathlib.Path:
    """The folder made with these options, made only once."""
    name = make.replace("--", "").replace(" ", "-")
    folder = BUILD / "engines" / "made" / name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        samebit("make", str(folder), *make.split())
    return folder


def predicted(case: Case, folder: pathlib.Path, work: pathlib.Path) -> dict[str, Any]:
    """Tokens and counters of the reference, each sequence alone."""
    prompts = work / "prompts"
    prompts.write_text("".join(",".join(map(str, ids)) + "\n" for ids in case.asked()["prompts"]), encoding="ascii")
    words = ["--tokens-file", str(prompts), "-n", str(case.generate), "--draft", str(case.draft), "--json"]
    words += ["--profile", case.reference, *case.sampling.split()]
    words += ["--drafter", case.drafter] * bool(case.drafter)
    document = json.loads(samebit("run", str(folder), *words))
    sequences = document.get("sequences", [document])
    rounds = [r for sequence in sequences for r in sequence.get("rounds", []) if r["drafted"]]
    return {
        "tokens": [sequence["tokens"] for sequence in sequences],
        "counters": {
            "rounds": len(rounds),
            "drafted": sum(len(r["drafted"]) for r in rounds),
            "accepted": [sum(r["accepted"] > depth for r in rounds) for depth in range(case.draft)],
        },
    }


def first_difference(ours: list[list[int]], theirs: list[list[int]]) -> str:
    """EQUAL, or the first difference of the tokens."""
    for number, (a, b) in enumerate(zip(ours, theirs)):
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            return f"sequence {number} differs at token {at} of {len(a)}"
    return "EQUAL" if len(ours) == len(theirs) else "not as many sequences"


def values(case: Case, folder: pathlib.Path, answers: pathlib.Path) -> dict[str, Any]:
    """The verdict of diff about the log-probabilities."""
    words = ["--profile", case.profile] + ["--sampled"] * bool(case.sampling)
    said = json.loads(
        samebit("diff", str(folder), "--engine", str(answers), *words, "--json", good=(0, 1, 4))
    )
    judged = [token for token in said["tokens"] if token["verdict"]]
    return {
        "verdict": said["verdict"],
        "tokens": len(judged),
        "near_ties": said["near_ties"],
        "worst": max((token["worst_ratio"] for token in judged), default=0),
        "reason": said["reason"],
    }


def metrics(case: Case, folder: pathlib.Path, work: pathlib.Path, answers: list[list[int]], text: str) -> str:
    """The verdict of accept about the metrics of a server."""
    prompts = case.asked()["prompts"]
    lines = [",".join(map(str, ids + answer)) + "\n" for ids, answer in zip(prompts, answers)]
    (work / "texts").write_text("".join(lines), encoding="ascii")
    (work / "given").write_text("".join(f"{len(ids)}\n" for ids in prompts), encoding="ascii")
    (work / "metrics").write_text(text, encoding="ascii")
    words = ["--tokens-file", str(work / "texts"), "--given", f"@{work / 'given'}", "-K", str(case.draft)]
    words += ["--observed", str(work / "metrics"), "--json"]
    said = json.loads(samebit("accept", str(folder), *words, good=(0, 1)))["observed"]
    return str(said["verdict"]) if said["verdict"] == "EQUAL" else f"{said['verdict']}: {said['why']}"


def counters(
    engine: str, case: Case, folder: pathlib.Path, work: pathlib.Path, got: dict[str, Any], ours: dict[str, Any]
) -> str:
    """EQUAL, or NEAR_TIE: the drafts of vLLM, recorded inside it, are within the bounds of the reference's."""
    if ours == got["counters"]:
        return "EQUAL"
    said = f"predicted {json.dumps(ours)}"
    if engine != "vllm":
        return said
    asked, trace = work / "case.json", work / "trace"
    asked.write_text(json.dumps(case.asked()), encoding="ascii")
    words = [str(BUILD / "venv-vllm" / "bin" / "python"), str(HERE / "vllm_record.py"), str(folder), str(trace), str(asked)]
    path = os.pathsep.join([str(HERE), str(HERE.parents[1] / "record")])
    with open(BUILD / "engines" / "vllm" / "log", "a", encoding="utf-8") as log:
        subprocess.run(words, stdout=log, stderr=log, check=True, env=os.environ | {"PYTHONPATH": path})
    rounds = [r for step in json.loads((trace / "trace.json").read_text())["steps"] for r in step.get("rounds", [])]
    recorded = {
        "rounds": len(rounds),
        "drafted": sum(len(r["drafts"]) for r in rounds),
        "accepted": [sum(r["accepted"] > depth for r in rounds) for depth in range(case.draft)],
    }
    if recorded != got["counters"]:
        return f"{said}, recorded {json.dumps(recorded)}"
    words = ["diff", str(folder), "--engine", str(trace), "--free", "--profile", case.profile, "--json"]
    verdict = json.loads(samebit(*words, good=(0, 1, 4)))["verdict"]
    return "NEAR_TIE" if verdict in ("WITHIN", "NEAR_TIE") else f"{said}, its drafts are judged {verdict}"


def refusal(folder: pathlib.Path) -> str:
    """The message with which a folder is refused."""
    ran = subprocess.run([SAMEBIT, "check", str(folder)], capture_output=True, text=True, check=False)
    said = ran.stderr.strip().replace(f"samebit: {folder}/", "")
    return said if ran.returncode == 3 else f"exit status {ran.returncode}"


def judged(engine: str, case: Case, folder: pathlib.Path, work: pathlib.Path, got: dict[str, Any]) -> dict[str, Any]:
    """The verdicts about an answer."""
    ours = predicted(case, folder, work)
    theirs = [answer["choices"][0]["token_ids"] for answer in got["answers"]]
    verdicts: dict[str, Any] = {"tokens": first_difference(ours["tokens"], theirs)}
    if case.draft and not case.sampling:
        verdicts["counters"] = counters(engine, case, folder, work, got, ours["counters"])
    if case.draft and not case.sampling and "metrics" in got:
        verdicts["metrics"] = metrics(case, folder, work, theirs, got["metrics"])
    if "quantize" in case.settings:
        verdicts["refusal"] = refusal(BUILD / "engines" / engine / "answers" / f"{case.name}.mlx")
    elif "logprobs" in got["answers"][0]["choices"][0]:
        answers = work / "answers.json"
        answers.write_text(json.dumps(got["answers"]), encoding="ascii")
        verdicts["values"] = values(case, folder, answers)
    return verdicts


def echo(case: Case) -> None:
    """Each prompt gets the reference's tokens, and then itself once more."""
    if not case.echo:
        return
    prompts, case.texts = case.asked()["prompts"], []
    for ids in prompts:
        words = ["--tokens", ",".join(map(str, ids)), "-n", str(case.echo), "--profile", case.reference, "--json"]
        case.texts.append(ids + json.loads(samebit("run", str(made(case.make)), *words))["tokens"] + ids)


def ask(engine: str, cases: list[Case], folder: pathlib.Path) -> None:
    """Gets the answers of the engine, FOLDER/CASE.json. The adapter gets all cases at once, because its import is
    slow."""
    jobs = []
    for case in cases:
        out = str(folder / f"{case.name}.json")
        jobs.append({"case": case.asked(), "checkpoint": str(made(case.make)), "out": out})
    python = BUILD / f"venv-{ENVIRONMENTS.get(engine, engine)}" / "bin" / "python"
    with tempfile.NamedTemporaryFile("w", encoding="ascii") as asked, open(folder / "log", "a", encoding="utf-8") as log:
        json.dump(jobs, asked)
        asked.flush()
        subprocess.run([str(python), str(HERE / f"{engine}_run.py"), asked.name], stdout=log, stderr=log, check=True)


def judge(engine: str, case: Case, answer: pathlib.Path) -> dict[str, Any]:
    """The stored data of a case: the request, the answer, the verdicts."""
    got = json.loads(answer.read_text(encoding="utf-8"))
    date = datetime.date.fromtimestamp(answer.stat().st_mtime).isoformat()
    result = {"engine": engine, "date": date} | case.asked() | got
    if "refused" not in got:
        with tempfile.TemporaryDirectory() as work:
            result["verdicts"] = judged(engine, case, made(case.make), pathlib.Path(work), got)
    return result


def bad(result: dict[str, Any]) -> bool:
    """True for a verdict that an engine without a fault cannot get."""
    said = result.get("verdicts", {})
    refused = "mlx-lm" in said.get("refusal", "mlx-lm")
    counted = said.get("counters") in (None, "EQUAL", "NEAR_TIE") and said.get("metrics", "EQUAL") == "EQUAL"
    return not counted or said.get("values", {}).get("verdict") == "FAIL" or not refused


def is_old(file: pathlib.Path, source: pathlib.Path) -> bool:
    """True if the file is missing, or older than its source."""
    return not file.exists() or file.stat().st_mtime < source.stat().st_mtime


def main() -> None:
    """Exit status 1 if a verdict is bad."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--anew", action="store_true", help="also what was run")
    parser.add_argument("--slice", action="store_true", help="the cases of make crosscheck")
    parser.add_argument("engine", choices=sorted(ENGINES))
    parser.add_argument("case", nargs="*", help="all without it")
    parser.add_argument("--judge", action="store_true", help="only what was answered and not judged")
    options = parser.parse_intermixed_args()
    wanted = options.case or (SLICE.get(options.engine, []) if options.slice else [])
    cases = [c for c in ENGINES[options.engine]() if not wanted or c.name in wanted]
    for case in cases:
        echo(case)
    folder = BUILD / "engines" / options.engine
    answers = folder / "answers"
    answers.mkdir(parents=True, exist_ok=True)
    if options.anew:
        for case in cases:
            (folder / f"{case.name}.json").unlink(missing_ok=True)
            (answers / f"{case.name}.json").unlink(missing_ok=True)
    adapter = HERE / f"{options.engine}_run.py"
    missing = [case for case in cases if is_old(answers / f"{case.name}.json", adapter)]
    if missing and not options.judge:
        ask(options.engine, missing, answers)
    failed = 0
    for case in cases:
        out, answer = folder / f"{case.name}.json", answers / f"{case.name}.json"
        if not answer.exists():
            continue
        if is_old(out, answer):
            result = judge(options.engine, case, answer)
            out.write_text(json.dumps(result, indent=1) + "\n", encoding="ascii")
        result = json.loads(out.read_text(encoding="ascii"))
        said = result.get("refused", "").split("\n")[0] or json.dumps(result["verdicts"])
        print(f"{case.name}: {said}", flush=True)
        failed += bad(result)
    sys.exit(failed > 0)


main()

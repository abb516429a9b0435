#!/usr/bin/env python3
"""Makes docs/engines.md and golden/engines from the results of run.py in build/engines: table.py.

golden/engines/ENGINE.json has the recordings of all cases of an engine: requests, counters, tokens and verdicts, and
log-probabilities of runs without drafts. Cases that are not in build/engines keep their recordings. docs/engines.md
is written from these recordings only.
"""

import json
import math
import os
import pathlib
from typing import Any

from cases import ENGINES
from vllm_settings import AT_ONCE

BUILD = pathlib.Path(os.environ.get("BUILD", "build"))
GOLDEN = pathlib.Path("golden/engines")
MARK = "<!-- what stands below is written by tools/gen/engines/table.py -->\n"
VALUED = 2  # log-probabilities of each row that a recording keeps
KEPT_TOKENS = 160  # generated tokens with values that a recording keeps
Row = dict[str, Any]


def fewest(top: dict[str, Any]) -> dict[str, Any]:
    """The most likely tokens of a row."""
    return dict(list(top.items())[:VALUED])


def entry(row: dict[str, Any] | None) -> dict[str, Any] | None:
    """An entry of prompt_logprobs: the first is the prompt's own token; the most likely tokens follow by rank."""
    if row is None:
        return None
    own, *others = row.items()
    return dict([own, *sorted(others, key=lambda item: item[1]["rank"])[: VALUED - 1]])


def recorded(result: Row) -> Row:
    """A result in the form of golden/engines: the answers are one list, without values if there were drafts."""
    kept = dict(result)
    if "metrics" in kept and kept["draft"]:
        kept["answers"] = [{"choices": [{"token_ids": a["choices"][0]["token_ids"]}]} for a in kept["answers"]]
    elif "answers" in kept and not kept["draft"]:
        count = max(1, KEPT_TOKENS // kept["generate"])
        kept |= {name: kept[name][:count] for name in ("answers", "prompts")}
    for answer in kept.get("answers", []):
        choice = answer["choices"][0]
        if kept["draft"]:
            choice.pop("logprobs", None)
        elif "logprobs" in choice:
            choice["logprobs"]["top_logprobs"] = [fewest(top) for top in choice["logprobs"]["top_logprobs"]]
        if "prompt_logprobs" in choice:
            choice["prompt_logprobs"] = [entry(row) for row in choice["prompt_logprobs"]]
    kept.pop("seconds", None)
    return kept


def recordings(engine: str) -> list[Row]:
    """The recordings of golden, replaced by newer runs."""
    file = GOLDEN / f"{engine}.json"
    old = json.loads(file.read_text(encoding="ascii"))["cases"] if file.exists() else []
    found = {case["name"]: case for case in old}
    for case in ENGINES[engine]():
        out = BUILD / "engines" / engine / f"{case.name}.json"
        if out.exists():
            found[case.name] = recorded(json.loads(out.read_text(encoding="ascii")))
    return list(found.values())


def form(make: str) -> str:
    """The format of a folder."""
    words = make.split()
    return words[words.index("--format") + 1] if "--format" in words else "bf16"


def repeats(case: Row) -> bool | dict[str, bool] | None:
    """True if the same requests gave the same bits once more; None: they were not sent again."""
    same_way = [one for one in case.get("shapes", []) if (one["at_once"], one["order"]) == (AT_ONCE, 1)]
    return same_way[0]["bits"] == same_way[0]["of"] if same_way else case.get("repeats")


def cells(case: Row) -> list[str]:
    """A row of the table."""
    head = [case["name"], form(case["make"]), str(case["draft"])]
    if "refused" in case:
        message = " ".join(case["refused"].split())
        said = message if len(message) <= 160 else message[:157] + "..."
        return head + ["-", "-", "-", "refused: `" + said.replace("|", "/").replace("`", "'") + "`", case["date"]]
    verdicts = case["verdicts"]
    values = verdicts.get("values")
    counted = "-"
    if case["draft"]:
        c = case["counters"]
        said = verdicts.get("metrics", verdicts.get("counters", "drawn"))
        counted = f"{c['rounds']}, {c['drafted']}, {c['accepted']}: {said}"
    judged = f"{values['verdict']}, {values['tokens']} tokens, {values['worst']:.3g}" if values else "-"
    if "refusal" in verdicts:
        judged = "refused by `samebit`: " + verdicts["refusal"]
    return head + [verdicts["tokens"], counted, judged, repeated(repeats(case)), case["date"]]


def repeated(found: bool | dict[str, bool] | None) -> str:
    """The bits of a second run, or of several that ran in different ways."""
    if isinstance(found, dict):
        ways = {bits: [way for way, same in found.items() if same == bits] for bits in (True, False)}
        return "; ".join(f"{repeated(bits)}: {', '.join(those)}" for bits, those in ways.items() if those)
    return {True: "same bits", False: "other bits", None: "-"}[found]


def shapes(cases: list[Row]) -> list[str]:
    """The table of the passes of a server: how many answers have the bits and the tokens of the first pass."""
    served = [case for case in cases if case.get("shapes")]
    if not served:
        return []
    ways = list(dict.fromkeys((one["at_once"], one["order"]) for case in served for one in case["shapes"]))
    heads = [f"{count} at a time" + (", reversed" if order < 0 else "") for count, order in sorted(ways)]
    lines = [
        f"\nThe same requests again to the same server, compared with the first pass, {AT_ONCE} at a time: how many answers",
        " have the same bits in all\nlog-probabilities, how many have the same tokens, and how many there are.\n\n",
        "| case | " + " | ".join(heads) + " |\n" + "|---" * (1 + len(heads)) + "|\n",
    ]
    for case in served:
        seen = {}
        for one in case["shapes"]:
            hits = f" ({one['hits']} tokens found in the cache until then)" if one.get("hits") else ""
            seen[one["at_once"], one["order"]] = f"{one['bits']}, {one['tokens']}, {one['of']}{hits}"
        lines.append(f"| {case['name']} | " + " | ".join(seen.get(way, "-") for way in sorted(ways)) + " |\n")
    return lines


INSIDE = {"llamacpp": ("llama.cpp", "2 drafts a round"), "mlx": ("mlx-lm", "no drafts"), "vllm": ("vLLM", "2 drafts a round")}


def inside(engine: str) -> list[str]:
    """The table of the mistakes planted in an engine (faults.py)."""
    file = GOLDEN / "inside" / f"{engine}.json"
    if not file.exists():
        return []
    document, (name, drafts) = json.loads(file.read_text(encoding="ascii")), INSIDE[engine]
    lines = [f"\n## Inside {name}\n\n`samebit diff` with `{' '.join(document['options'])}`, {drafts}.\n"]
    for model in document["models"]:
        good, *faults = model["faults"]
        seen = "".join(f"| {op} | {same} of {all_of} | {math.inf if worst > 1e300 else worst:.3g} |\n" for op, (all_of, same, worst) in good["ops"].items())
        fails = f" By itself fails {', '.join(good['failed'])}." if good["failed"] else " No op fails by itself."
        found = sum(said["found"] for said in faults)
        lines += [
            f"\n### {name}, {model['model']}\n\nAs it is: {good['verdict']}, {good['free']} with `--free`.{fails}",
            f" Ops of which no call was judged: {', '.join(good['not_judged']) or 'none'}.\n\n| op | the bits of the reference | worst error/bound |\n|---|---|---|\n{seen}",
            f"\nPlanted: {len(faults)}, found: {found}.\n\n",
            "| planted | found | first | ops that fail | first round that fails |\n|---|---|---|---|---|\n",
        ]
        for said in faults:
            first, found_it = said["first"], "FAIL" if said["found"] else "not found"
            where = f"`{first['tap']}`, token {first['token']}" if first else "-"
            ops = ", ".join(op for op in said["failed"] if op not in good["failed"]) or "-"
            lines.append(f"| {said['what']} | {found_it} | {where} | {ops} | {said['round'] or '-'} |\n")
    return lines


def main() -> None:
    """Writes both again."""
    GOLDEN.mkdir(exist_ok=True)
    document = pathlib.Path("docs/engines.md")
    lines = [document.read_text(encoding="utf-8").split(MARK)[0] + MARK]
    for engine in sorted(ENGINES):
        cases = recordings(engine)
        if not cases:
            continue
        text = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
        (GOLDEN / f"{engine}.json").write_text('{"cases":[\n' + text + "\n]}\n", encoding="ascii")
        versions = sorted({case["version"] for case in cases})
        lines.append(f"\n## {engine}: {'; '.join(versions)}\n\n")
        lines.append("| case | format | drafts | tokens | counters | values | repeated | date |\n")
        lines.append("|---|---|---|---|---|---|---|---|\n")
        lines += ["| " + " | ".join(cells(case)) + " |\n" for case in cases]
        lines += shapes(cases)
    lines += [line for engine in INSIDE for line in inside(engine)]
    document.write_text("".join(lines), encoding="utf-8")


main()

"""Judges the answers of a probe: compares those that should be equal, counts differences, and tests their rate.

This does not decide which answer is right. The command printed after a difference asks the reference.
"""

import argparse
import hashlib
import json
import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import probe_answers as answers

TIE = 0.125  # nats; the step of bfloat16 between 16 and 32
ALPHA = BETA = 0.01
NEVER = (0.0, 1e-3)
SHOWN = 20
CONCURRENT = ("concurrency", "order", "twins")
Z = 1.959963984540054


class Unreadable(ValueError):
    """The folder is not from a probe, or was changed."""


@dataclass
class Row:
    """A request and its answer."""

    order: int
    phase: str
    mode: str
    prompt: int
    sent: list[int]
    length: int  # of the prompt, without the given output of a resumed one
    error: str | None
    response: Any
    answer: answers.Answer | None

    @property
    def sequence(self) -> list[Any]:
        return self.sent + (self.answer.tokens if self.answer else [])

    def top(self, place: int) -> dict[Any, float] | None:
        """The list of the token at this place of the sequence."""
        at = place - len(self.sent)
        return self.answer.tops[at] if self.answer and 0 <= at < len(self.answer.tops) else None


@dataclass
class Taken:
    start: dict[str, Any]
    rows: list[Row]
    complete: bool = True


@dataclass
class Group:
    """Answers that should be equal, in pairs."""

    name: str
    sides: tuple[str, str]
    pairs: list[tuple[Row, Row]] = field(default_factory=list)
    missing: int = 0


@dataclass
class Finding:
    prompt: int
    length: int
    near: bool
    words: str
    position: int | None = None
    tokens: list[Any] = field(default_factory=list)
    margin: float | None = None


# --- reading ------------------------------------------------------------------------------------------------


def row(line: dict[str, Any], start: dict[str, Any]) -> Row:
    request, answer, error = line["request"], None, line["error"]
    if error is None:
        answer = answers.read(start["kind"], line["response"])
    sent = answers.ids(request["prompt" if "prompt" in request else "input_ids"])
    length = len(start["ids"][line["prompt"]])
    which = (line["order"], line["phase"], line["mode"], line["prompt"])
    return Row(*which, sent, length, error, line.get("response"), answer)


def load(folder: Path, whole: bool = True) -> Taken:
    """Loads a probe. whole: checks it against the manifest."""
    complete = True
    try:
        start = json.loads((folder / "start.json").read_text(encoding="utf-8"))
        if whole:
            if not (folder / "manifest.json").exists() and (folder / "answers.jsonl.live").exists():
                raise Unreadable(f"{folder}: the probe was killed; probe.py finish {folder} keeps what is complete")
            manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            complete = manifest["complete"]
            for name, digest in manifest["files"].items():
                if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
                    raise Unreadable(f"{folder / name}: its SHA-256 is not that in manifest.json: it was changed")
        text = (folder / "answers.jsonl").read_text(encoding="utf-8")
        rows = [row(answers.strict(line), start) for line in text.split("\n") if line]
    except Unreadable:
        raise
    except (OSError, KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise Unreadable(f"{folder}: is not the folder of a probe: {type(error).__name__} {error}") from None
    return Taken(start, sorted(rows, key=lambda r: r.order), complete)


def groups(taken: Taken) -> list[Group]:
    start = taken.start
    found = {(r.mode, r.phase, r.prompt): r for r in taken.rows}
    # if a request cannot bypass the cache, later requests find their prompts there
    alone = "first" if start["fresh"] else "again"
    plan = []
    for mode in start["modes"]:
        sizes = start["concurrency"]
        twins = [f"twin-{k}" for k in range(max(sizes))]
        for name, phase, left, rights in (
            ("cache", "again", "first", ["again"]),
            *((f"concurrency-{n}", "together", alone, [f"together-{n}"]) for n in sizes),
            ("order", "mixed", alone, ["mixed"]),
            ("twins", "twins", alone, twins),
            ("resume", "resume", "first", ["resume"]),
            ("logprobs", "logprobs", "told", ["told-again"]),
        ):
            if phase in start["phases"] and (name != "logprobs" or start["tells_prompt"]):
                sides = (left, rights[0] if len(rights) == 1 else name)
                plan.append((Group(f"{name}.{mode}", sides), (mode, left), [(mode, right) for right in rights]))
    if start["modes"] == ["off", "on"] and "again" in start["phases"]:
        plan.append((Group("speculation", ("off", "on")), ("off", "first"), [("on", "first")]))
    for group, left, each in plan:
        for i in range(start["prompts"]):
            for right in each:
                a, b = found.get((*left, i)), found.get((*right, i))
                if a and b:
                    group.pairs.append((a, b))
                elif name_of(group) == "twins" and i >= start["twins"]:
                    pass
                elif not (name_of(group) == "logprobs" and not a):
                    group.missing += 1
    return [group for group, *_ in plan]


def name_of(group: Group) -> str:
    return group.name.split(".")[0].split("-")[0]


# --- pairs --------------------------------------------------------------------------------------------------


def margin(top: dict[Any, float] | None, own: Any, other: Any) -> float | None:
    """The margin of a token over another one; a lower bound if the other is not in the list."""
    if not top or own not in top:
        return None
    return top[own] - top.get(other, min(top.values()))


def part(a: Row, b: Row, tie: float) -> Finding | None:
    """The first divergence of two sequences, and whether the two tokens were nearly equal on both sides."""
    left, right = a.sequence, b.sequence
    at = next((i for i, (x, y) in enumerate(zip(left, right)) if x != y), min(len(left), len(right)))
    if at == len(left) == len(right):
        return None
    where = at - a.length
    if at in (len(left), len(right)):
        return Finding(a.prompt, a.length, False, f"one answer ends after {where} tokens, the other goes on", where)
    tokens = [left[at], right[at]]
    tops = [a.top(at), b.top(at)]
    known = [m for m in (margin(tops[0], *tokens), margin(tops[1], *reversed(tokens))) if m is not None]
    listed = all(top is None or set(tokens) <= set(top) for top in tops)
    near = bool(known) and listed and max(known) <= tie
    margins = f"margins {' and '.join(f'{m:.3g}' for m in known)}" if known else "margins not known"
    words = f"{tokens[0]} | {tokens[1]}, {margins}"
    return Finding(a.prompt, a.length, near, words, where, tokens, max(known, default=None))


def told(a: Row, b: Row, tie: float) -> Finding | None:
    """Compares two answers' log-probabilities of one prompt."""
    lists = []
    for r in (a, b):
        tops = r.answer.prompt_tops if r.answer else None
        if tops is None or len(tops) != len(r.sent):
            count = "no" if tops is None else len(tops)
            return Finding(r.prompt, r.length, False, f"{count} entries, but {len(r.sent)} tokens in the prompt")
        for i, top in enumerate(tops[1:], 1):
            if not top or r.sent[i] not in top:
                words = f"{r.phase}: entry {i} of the prompt does not list token {i}: it may belong to another prompt"
                return Finding(r.prompt, r.length, False, words, i - r.length, [r.sent[i]])
        lists.append(tops[1:])
    off = [max(abs(x[t] - y[t]) for t in x.keys() & y.keys()) for x, y in zip(*lists)]
    if not off or max(off) == 0:
        return None
    at = off.index(max(off))
    return Finding(a.prompt, a.length, max(off) <= tie, f"{max(off):.3g} nats", at + 1 - a.length, [], max(off))


def best(r: Row, tie: float) -> Finding | None:
    """Temperature 0: every token must be the most likely of its list."""
    for place, token in enumerate(r.answer.tokens if r.answer else [], len(r.sent)):
        top = r.top(place)
        if not top or top.get(token) == max(top.values()):
            continue
        other = max(top, key=lambda t: top[t])
        below = top[other] - top.get(token, -math.inf)
        words = f"{token} was chosen, but the log-probability of {other} is larger by {below:.3g}"
        return Finding(r.prompt, r.length, below <= tie, words, place - r.length, [token, other], below)
    return None


def usable(r: Row, added: int) -> Finding | None:
    """Checks that an answer could be read and belongs to the prompt that was sent."""
    a = r.answer
    words = None
    if a is None:
        words = r.error or "no answer"
    elif a.prompt_ids is not None and a.prompt_ids != r.sent:
        words = "prompt_token_ids differ from the prompt that was sent"
    elif a.prompt_count is not None and a.prompt_count != len(r.sent) + added:
        words = f"the answer counts {a.prompt_count} tokens in the prompt, but {len(r.sent)} were sent"
    elif a.count is not None and a.count != len(a.tokens):
        words = f"the answer counts {a.count} generated tokens, but has {len(a.tokens)}"
    return Finding(r.prompt, r.length, False, words) if words else None


# --- statistics ---------------------------------------------------------------------------------------------


def interval(hits: int, seen: int) -> tuple[float, float]:
    """Wilson's score interval, 95 %."""
    if not seen:
        return 0.0, 1.0
    p, share = hits / seen, Z * Z / seen
    spread = Z * math.sqrt(p * (1 - p) / seen + 0.25 * share / seen)
    low, high = (p + 0.5 * share - spread) / (1 + share), (p + 0.5 * share + spread) / (1 + share)
    return (0.0 if hits == 0 else low), (1.0 if hits == seen else high)


def sequential(flags: list[bool], p0: float, p1: float) -> dict[str, Any]:
    """Wald's test of a rate of at most p0 against at least p1 (docs/statistics.md, L-4)."""
    miss = math.log1p(-p1) - math.log1p(-p0)
    ratio, claim, seen = 0.0, "open", 0
    low, high = math.log(BETA / (1 - ALPHA)), math.log((1 - BETA) / ALPHA)
    for hit in flags:
        seen += 1
        ratio = math.inf if hit and p0 == 0 else ratio + (math.log(p1 / p0) if hit else miss)
        if ratio >= high or ratio <= low:
            claim = "broken" if ratio >= high else "holds"
            break
    more = math.ceil((ratio - low) / -miss) if claim == "open" else 0
    return {"p0": p0, "p1": p1, "claim": claim, "after": seen, "more": more}


# --- a judgement --------------------------------------------------------------------------------------------


def hollow(rows: list[Row]) -> str | None:
    """The reason why equal answers would prove nothing, or None."""
    if not rows:
        return None
    made = [tuple(r.answer.tokens) for r in rows if r.answer]
    if not made or max(len(m) for m in made) < 2:
        return "no answer has two tokens"
    if len(set(made)) == 1 and len({r.prompt for r in rows}) > 1:
        return "every answer is the same"
    if all(len(set(m)) < 2 for m in made):
        return "every answer repeats one token"
    return None


def counter(folder: Path, server: int, name: str) -> float | None:
    """The increase of a counter of /metrics, summed over its labels."""
    sums = []
    for when in ("before", "after"):
        try:
            lines = (folder / f"metrics-{server}-{when}.txt").read_text(encoding="utf-8").splitlines()
            fitting = [x.split() for x in lines if x.startswith((f"{name} ", f"{name}{{"))]
            sums.append(sum(float(x[-1]) for x in fitting) if fitting else math.nan)
        except (OSError, ValueError):
            return None
    return None if math.isnan(sums[1]) else sums[1] - (0 if math.isnan(sums[0]) else sums[0])


def cached(folder: Path, taken: Taken, group: Group) -> tuple[int, int] | None:
    """How many of the second answers had tokens from the cache, of those that tell; or, for a server that tells of
    no answer, how many tokens were found in the whole run. None if nothing tells."""
    told = [b.answer.cached for _, b in group.pairs if b.answer and b.answer.cached is not None]
    if told or name_of(group) != "cache":
        return (sum(c > 0 for c in told), len(told)) if told else None
    server = taken.start["modes"].index(group.name.split(".")[1]) if len(taken.start["servers"]) > 1 else 0
    hits = counter(folder, server, "vllm:prefix_cache_hits_total")
    return None if hits is None else (int(hits), 0)


def drafts(folder: Path, taken: Taken, mode: str) -> float | None:
    """The drafts of one side's answers; None if unknown."""
    counts = [r.answer.drafted for r in taken.rows if r.mode == mode and r.answer]
    if any(c is not None for c in counts):
        return sum(c or 0 for c in counts)
    if len(taken.start["servers"]) < 2:
        return None
    return counter(folder, taken.start["modes"].index(mode), "vllm:spec_decode_num_drafts_total")


def witnessed(folder: Path, taken: Taken, group: Group) -> str | None:
    """The evidence that the varied cause was present, or None."""
    if name_of(group) in ("cache", "logprobs"):
        found = cached(folder, taken, group)
        if found is None:
            return "the server does not report use of the cache"
        return f"{found[0]} of {found[1]} found in the cache" if found[1] else f"{found[0]} tokens found in the cache in all"
    if group.name == "speculation":
        count = drafts(folder, taken, "on")
        return "the server does not report drafts" if count is None else f"{count:g} drafts"
    return None


def unseen(folder: Path, taken: Taken, group: Group) -> str | None:
    """The reason why the cause that a group varies was absent, or None."""
    if name_of(group) in ("cache", "logprobs"):
        found = cached(folder, taken, group)
        return "nothing was found in the cache" if found and not found[0] else None
    if name_of(group) in CONCURRENT:
        for server in taken.start["servers"]:
            try:
                if json.loads(server["/props"])["total_slots"] == 1:
                    return "the server has one slot: requests wait for one another"
            except (KeyError, TypeError, ValueError):
                pass
    if group.name == "speculation":
        if drafts(folder, taken, "on") == 0:
            return "nothing was drafted"
        if drafts(folder, taken, "off"):
            return "tokens were drafted on both sides: the server ignores speculative.n_max, use --baseline"
    return None


def made(r: Row) -> int:
    return len(r.sequence) - r.length if r.answer else 0


def verdict(found: list[Finding | None], why: str | None) -> str:
    if any(f and not f.near for f in found):
        return "DIFFERS"
    if why or not found:
        return "NOTHING"
    return "NEAR_TIE" if any(found) else "EQUAL"


def told_of(
    name: str, rows: list[Row], found: list[Finding | None], why: str | None, claims: list[Any]
) -> dict[str, Any]:
    """The result of one group; rows: the compared rows, one per item of found."""
    lengths = [r.length for r in rows]
    tokens = sum(made(r) if f is None else max(0, f.position or 0) for r, f in zip(rows, found))
    real = [f for f in found if f and not f.near]
    flags = [bool(f and not f.near) for f in found]
    low, high = interval(len(real), len(found))
    first = min((f for f in found if f), key=lambda f: f.near, default=None)
    ended = {k: [sum(w for n, w in zip(lengths, flags) if n == k), lengths.count(k)] for k in sorted(set(lengths))}
    result: dict[str, Any] = {"group": name, "verdict": verdict(found, why), "compared": len(found), "tokens": tokens}
    near = sum(1 for f in found if f and f.near)
    result |= {"differ": len(real), "near_ties": near, "low": low, "high": high, "why": why}
    never = sequential(flags, *NEVER)
    rarer = None if any(flags) or not found else -math.expm1(math.log(BETA) / len(found))
    result |= {"never": {**never, "rarer_than": rarer}, "claims": [sequential(flags, *c) for c in claims]}
    result |= {"lengths": ended, "first": first and vars(first)}
    result["found"] = [vars(f) for f in found if f][:SHOWN]
    return result


def command_of(folder: Path, group: Group) -> str | None:
    """The command that shows which answer is right."""
    names = [folder / "groups" / f"{group.name}.{side}" for side in group.sides]
    if name_of(group) == "logprobs":
        return f"samebit diff CKPT --engine {shlex.quote(str(names[1]))}.jsonl --as answers"
    paths = [shlex.quote(f"{name}.ids") for name in names]
    if not all(Path(f"{name}.ids").exists() for name in names):
        return None
    return f"samebit diff CKPT --engine {paths[0]} --versus {paths[1]}"


def judged(folder: Path, taken: Taken, tie: float, claims: list[Any]) -> Iterator[dict[str, Any]]:
    nothing = hollow([r for r in taken.rows if not r.phase.startswith("told")])
    added = {r.answer.prompt_count - len(r.sent) for r in taken.rows if r.answer and r.answer.prompt_count is not None}
    each = [(r, usable(r, next(iter(added)) if len(added) == 1 else 0)) for r in taken.rows]
    result = told_of("answers", [r for r, _ in each], [f for _, f in each], nothing, claims)
    yield {**result, "missing": 0, "witness": None, "command": None}
    with_lists = [r for r in taken.rows if r.answer and any(r.answer.tops)]
    result = told_of("greedy", with_lists, [best(r, tie) for r in with_lists], nothing, claims)
    yield {**result, "missing": 0, "witness": None, "command": None}
    for group in groups(taken):
        both = [(a, b) for a, b in group.pairs if a.answer and b.answer]
        compare = told if name_of(group) == "logprobs" else part
        found = [compare(a, b, tie) for a, b in both]
        why = (nothing if compare is part else None) or unseen(folder, taken, group)
        result = told_of(group.name, [a for a, _ in both], found, why, claims)
        result["missing"] = group.missing + len(group.pairs) - len(both)
        result["witness"] = witnessed(folder, taken, group)
        result["command"] = command_of(folder, group) if any(found) else None
        yield result


def line_of(g: dict[str, Any]) -> str:
    out = f"{g['group']:17} {g['verdict']:8} {g['differ']} of {g['compared']} differ"
    if g["differ"]:
        out += f" ({g['low']:.3f} to {g['high']:.3f})"
    out += f" ({g['witness']})" if g["witness"] else ""
    if g["near_ties"]:
        out += f", {g['near_ties']} near ties"
    if g["missing"]:
        out += f", {g['missing']} not compared"
    if g["first"]:
        f = g["first"]
        where = "" if f["position"] is None else f" at token {f['position']}"
        out += f"; first: prompt {f['prompt']} of {f['length']} tokens{where}: {f['words']}"
    some = [k for k, (differ, _) in g["lengths"].items() if differ]
    if some and len(some) < len(g["lengths"]):
        out += f"; lengths {', '.join(map(str, some))}"
    if g["compared"]:
        never = g["never"]
        out += f"; never: {never['claim']}"
        if never["rarer_than"]:
            out += f", rarer than {never['rarer_than']:.3g}"
    for c in g["claims"]:
        out += f"; at most {c['p0']:g} against {c['p1']:g}: {c['claim']}"
    return out + (f"; {g['why']}" if g["why"] else "")


def claim(text: str) -> tuple[float, float]:
    low, high = (float(part) for part in text.split(","))
    if not 0 <= low < high < 1:
        raise ValueError(text)
    return low, high


def nats(text: str) -> float:
    if not 0 <= float(text) < math.inf:
        raise ValueError(text)
    return float(text)


CLAIM = "also test a rate of at most P0 against at least P1"


def command(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="probe.py judge", description=__doc__, allow_abbrev=False)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--tie", type=nats, default=TIE, metavar="NATS", help=f"largest margin of a near tie ({TIE})")
    parser.add_argument("--claim", type=claim, action="append", default=[], metavar="P0,P1", help=CLAIM)
    args = parser.parse_args(words)
    taken = load(args.folder)
    results = list(judged(args.folder, taken, args.tie, args.claim))
    verdicts = {g["verdict"] for g in results}
    # groups about readable and most likely answers do not count as the requested comparison
    asked = {g["verdict"] for g in results if g["group"] not in ("answers", "greedy")}
    whole = "DIFFERS" if "DIFFERS" in verdicts else "NOTHING" if asked <= {"NOTHING"} else "EQUAL"
    if whole == "EQUAL" and "NEAR_TIE" in verdicts:
        whole = "NEAR_TIE"
    if args.json:
        head = {"format": "samebit-probe-judgement", "version": 1, "verdict": whole, "complete": taken.complete}
        print(json.dumps({**head, "tie": args.tie, "groups": results}, indent=1))
    else:
        for g in results:
            print(line_of(g))
            if g["command"]:
                print(f"  who is right: {g['command']}")
        print(f"{whole} {args.folder}" + ("" if taken.complete else ": not all requests were made"))
    return {"DIFFERS": 1, "NOTHING": 4}.get(whole, 0)

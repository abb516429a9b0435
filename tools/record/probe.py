#!/usr/bin/env python3
"""Sends a running server the same requests under circumstances that must not matter; keeps all answers
(docs/probe.md).

    probe.py URL --out DIR [--baseline URL2] [--prompts F | --ids F] [options]    asks
    probe.py judge DIR [--json] [--tie NATS] [--claim P0,P1]                      judges; needs no server
    probe.py finish DIR                                                          after a killed run

Exit status: 0 all requests were sent (judge: no difference), 1 judge: a difference, 2 wrong use, 3 the server or the
input cannot be used, 4 not all requests were sent (judge: a difference could not have shown). Needs only Python's
standard library.
"""

import argparse
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import probe_answers as answers
import probe_judge as judge
from probe_server import Refused, Server
from probe_store import Store, finish

LENGTHS = "15,16,17,63,64,65,255,256,257,1023,1024,1025"
PHASES = ("again", "together", "mixed", "twins", "resume", "logprobs")
TWINS = 4  # prompts that are each sent several times at once
TOLD, TOLD_LENGTH = 8, 300  # prompts with prompt_logprobs, and their largest length
GONE = 5  # consecutive requests without an answer before the server counts as gone


class Stop(Exception):
    """Stops the requests; the message says why."""


# --- prompts ------------------------------------------------------------------------------------------------


def drawn(count: int, vocabulary: int, seed: int) -> list[int]:
    """Pseudo-random ids, the same every time."""
    out, state = [], seed * 2654435761 + 12345
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        out.append(1 + (state >> 33) % (vocabulary - 1))
    return out


def source(args: argparse.Namespace, server: Server) -> list[list[int]]:
    """Lists of ids to cut prompts from; empty if prompts are to be drawn."""
    if args.ids:
        lines = args.ids.read_text(encoding="utf-8").splitlines()
        return [[int(t) for t in line.replace(",", " ").split()] for line in lines if line.strip()]
    if args.prompts:
        return [server.tokenize(args.prompts.read_text(encoding="utf-8"))]
    return []


def cut(lists: list[list[int]], lengths: list[int], runs: int, vocabulary: int) -> list[list[int]]:
    """`runs` prompts of these lengths in turn, each from another place."""
    if not lists:
        return [drawn(lengths[i % len(lengths)], vocabulary, i + 1) for i in range(runs)]
    out = []
    for i in range(runs):
        line, length = lists[i % len(lists)], lengths[i % len(lengths)]
        start = (i // len(lists)) * max(1, len(line) // 7) % len(line)
        out.append([line[(start + k) % len(line)] for k in range(length)])
    return out


# --- asking -------------------------------------------------------------------------------------------------


class Probe:
    def __init__(
        self, args: argparse.Namespace, sides: list[tuple[str, Server]], prompts: list[list[int]], store: Store
    ) -> None:
        self.args, self.sides, self.prompts, self.store = args, sides, prompts, store
        self.until = time.monotonic() + args.max_seconds
        self.asked = self.silent = 0

    def ask(self, batch: list[dict[str, Any]]) -> list[answers.Answer | None]:
        """Sends requests at the same time; they get their numbers before any of them is sent."""
        left = self.until - time.monotonic()
        if self.asked + len(batch) > self.args.max_requests:
            raise Stop(f"limit of {self.args.max_requests} requests")
        if left <= 0:
            raise Stop(f"limit of {self.args.max_seconds:g} seconds")
        found: list[answers.Answer | None] = [None] * len(batch)
        begin = threading.Barrier(len(batch))
        for i, entry in enumerate(batch):
            entry["order"] = self.asked + i
        self.asked += len(batch)

        def one(i: int) -> None:
            entry, server = batch[i], batch[i].pop("server")
            begin.wait()
            reply = server.complete(entry, min(self.args.timeout, left))
            found[i] = self.store.keep(entry, reply, server)

        threads = [threading.Thread(target=one, args=(i,), daemon=True) for i in range(len(batch))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.silent = 0 if any(self.store.said) else self.silent + len(batch)
        self.store.said.clear()
        if self.silent >= GONE:
            raise Stop("the server no longer answers")
        return found

    def request(self, side: int, phase: str, prompt: int, **more: Any) -> dict[str, Any]:
        mode, server = self.sides[side]
        entry = {"phase": phase, "mode": mode, "prompt": prompt, "ids": self.prompts[prompt], "n": self.args.n}
        off = mode == "off" and not self.args.baseline
        return {**entry, "server": server, "speculation": not off, "share": None, **more}

    def again(self, side: int) -> list[answers.Answer | None]:
        """A B A: each prompt, another one, and the same again; every B is the A of the next."""
        count = len(self.prompts)
        first: list[answers.Answer | None] = [None] * count
        share = f"again {side}"
        for i in range(count + 1):
            if i < count:
                first[i] = self.ask([self.request(side, "first", i, share=share, fresh=True)])[0]
            if i > 0:
                self.ask([self.request(side, "again", i - 1, share=share)])
        return first

    def together(self, side: int) -> None:
        for at_once in self.args.concurrency:
            self.batches(side, f"together-{at_once}", list(range(len(self.prompts))), at_once)

    def mixed(self, side: int) -> None:
        """In another order, so that each prompt has other neighbours than in `together`."""
        at_once, count = max(self.args.concurrency), len(self.prompts)
        steps = -(-count // at_once)
        self.batches(side, "mixed", [i for k in range(steps) for i in range(k, count, steps)], at_once)

    def batches(self, side: int, phase: str, order: list[int], at_once: int) -> None:
        for i in range(0, len(order), at_once):
            here = order[i : i + at_once]
            self.ask([self.request(side, phase, k, share=f"{phase} {side}", fresh=True) for k in here])

    def twins(self, side: int) -> None:
        """The same prompt several times at once."""
        count = max(self.args.concurrency)
        for i in range(min(TWINS, len(self.prompts))):
            more = {"share": f"twins {side}", "fresh": True}
            self.ask([self.request(side, f"twin-{k}", i, **more) for k in range(count)])

    def resume(self, side: int, first: list[answers.Answer | None]) -> None:
        """Appends half of the output to the prompt: the rest must come out again."""
        half = self.args.n // 2
        for i, answer in enumerate(first):
            if answer and answer.are_ids and 0 < half < len(answer.tokens):
                fed = self.prompts[i] + answer.tokens[:half]
                more = {"ids": fed, "n": self.args.n - half, "share": f"resume {side}", "fresh": True}
                self.ask([self.request(side, "resume", i, **more)])

    def logprobs(self, side: int) -> None:
        """A B A once more, each time with the log-probabilities of the prompt."""
        short = [i for i, p in enumerate(self.prompts) if len(p) <= TOLD_LENGTH][:TOLD]
        more = {"n": 1, "share": f"logprobs {side}", "told": True}
        for k in range(len(short) + 1 if self.sides[side][1].tells_prompt else 0):
            if k < len(short):
                self.ask([self.request(side, "told", short[k], **more)])
            if k > 0:
                self.ask([self.request(side, "told-again", short[k - 1], **more)])

    def run(self) -> None:
        phases = self.args.only
        first: dict[int, list[answers.Answer | None]] = {}
        for side in range(len(self.sides)):
            if "again" in phases:
                first[side] = self.again(side)
        for side in range(len(self.sides)):
            if "together" in phases:
                self.together(side)
            if "mixed" in phases:
                self.mixed(side)
            if "twins" in phases:
                self.twins(side)
            if "resume" in phases:
                self.resume(side, first.get(side, []))
            if "logprobs" in phases:
                self.logprobs(side)


# --- the command --------------------------------------------------------------------------------------------


def number_list(text: str) -> list[int]:
    out = sorted({int(t) for t in text.split(",")})
    if not out or out[0] < 1:
        raise ValueError(text)
    return out


def at_once(text: str) -> list[int]:
    out = number_list(text)
    if out[0] < 2:
        raise ValueError(text)
    return out


def phases(text: str) -> list[str]:
    if not set(text.split(",")) <= set(PHASES):
        raise ValueError(text)
    return text.split(",")


def at_least(least: int) -> Any:
    def whole(text: str) -> int:
        if int(text) < least:
            raise ValueError(text)
        return int(text)

    return whole


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    drawn_below = "without --prompts and --ids: ids are drawn below this number (384)"
    parser.add_argument("url", metavar="URL")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a folder that does not exist yet")
    parser.add_argument("--baseline", metavar="URL2", help="a second server, the same but without speculation")
    parser.add_argument("--kind", choices=list(answers.READERS), help="kind of the server (the server is asked)")
    parser.add_argument("--model", metavar="M", help="name of the model (default: the first that the server lists)")
    parser.add_argument("--prompts", type=Path, metavar="F", help="a text to cut prompts from")
    parser.add_argument("--ids", type=Path, metavar="F", help="lists of ids to cut prompts from, one a line")
    parser.add_argument("--vocab", type=at_least(2), default=384, help=drawn_below)
    parser.add_argument("--lengths", type=number_list, default=LENGTHS, help=f"lengths of the prompts ({LENGTHS})")
    parser.add_argument("--runs", type=at_least(2), default=32, help="prompts; they have these lengths in turn (32)")
    parser.add_argument("-n", type=at_least(2), default=32, help="tokens of an answer (32)")
    parser.add_argument("--top", type=at_least(1), default=5, help="log-probabilities per token (5)")
    parser.add_argument("--concurrency", type=at_once, default=[8], help="requests at a time: 8, or 2,4,8,16 (8)")
    parser.add_argument("--context", type=at_least(1), help="most tokens of prompt and answer (asked; 4096)")
    parser.add_argument("--only", type=phases, default=",".join(PHASES), help=f"phases: some of {','.join(PHASES)}")
    parser.add_argument("--max-requests", type=at_least(1), default=600, help="most requests of the whole run (600)")
    parser.add_argument("--max-seconds", type=float, default=600, help="most seconds of the whole run (600)")
    parser.add_argument("--timeout", type=float, default=120, help="seconds of one request (120)")
    return parser


def probe(words: list[str]) -> int:
    args = options().parse_args(words)
    if args.prompts and args.ids:
        raise Refused("--prompts and --ids exclude each other")
    server = Server(args.url, args)
    if args.baseline:
        sides = [("off", Server(args.baseline, args)), ("on", server)]
    elif server.has_switch:
        sides = [("off", server), ("on", server)]
    else:
        sides = [("plain", server)]
    context = args.context or min(s.context or 4096 for _, s in sides)
    lengths = [k for k in args.lengths if k + args.n <= context]
    if not lengths:
        raise Refused(f"no prompt of --lengths fits with {args.n} tokens of an answer into {context} tokens")
    prompts = cut(source(args, server), lengths, args.runs, args.vocab)
    start = {"kind": server.kind, "modes": [mode for mode, _ in sides], "n": args.n, "concurrency": args.concurrency}
    start |= {"lengths": lengths, "left_out": [k for k in args.lengths if k not in lengths], "prompts": len(prompts)}
    start |= {"twins": min(TWINS, len(prompts))}
    start |= {"fresh": server.can_be_fresh, "phases": args.only, "tells_prompt": server.tells_prompt}
    with Store(args.out, start, sides, prompts) as store:
        run = Probe(args, sides, prompts, store)
        why = None
        try:
            run.run()
        except (Stop, KeyboardInterrupt) as stop:
            why = str(stop) or "interrupted"
        store.end(why)
    early = {"ignore_eos": "; an answer ends where a text ends"}
    print(f"{store.count} answers in {args.out}" + (f"; not all requests were made: {why}" if why else ""))
    for refused in sorted({name for _, s in sides for name in s.without}):
        print(f"the server refuses {refused}, so requests were sent without it" + early.get(refused, ""))
    print(f"to judge them: {sys.argv[0]} judge {args.out}")
    return 4 if why else 0


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


def main() -> int:
    words = sys.argv[1:]
    signal.signal(signal.SIGTERM, interrupted)
    try:
        if words[:1] == ["judge"]:
            return judge.command(words[1:])
        if words[:1] == ["finish"] and len(words) == 2:
            finish(Path(words[1]), "killed")
            return 0
        return probe(words)
    except (OSError, ValueError) as error:  # Refused, BadAnswer and Unreadable are kinds of ValueError
        print(f"probe: {error}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Shows how an engine writes its trace with samebit_trace.py, level by level: the run of docs/trace.md.

    trace_example.py OUT LEVEL NUMBERS

The files of the folder NUMBERS hold the values that an engine would compute, as consecutive binary32 rows:
logits.f32 (the last row of the prompt, then all rows), g.f32 (a tap, all rows), conv_state.f32 (an array of the
state after the prompt and after each round). trace_example.rs and the example in C write the same bytes.
"""

import sys
from pathlib import Path

import numpy as np
from samebit_trace import Call, Sequence, Trace

VOCAB, HEADS, CHANNELS = 384, 4, 512
PROMPT, EMITTED = [1, 2, 3], [127, 153, 16, 35, 116]


class Numbers:
    """A file of NUMBERS, read in rows."""

    def __init__(self, path: Path, width: int) -> None:
        self.rows, self.at = np.fromfile(path, "<f4").reshape(-1, width), 0

    def take(self, count: int) -> np.ndarray:
        self.at += count
        return self.rows[self.at - count : self.at]


def plain_run(trace: Trace, level: int, logits: Numbers) -> None:
    """Levels 0 and 1: plain decoding."""
    chat = trace.sequence()
    with trace.call() as call:
        call.prompt(chat, PROMPT)
        if level >= 1:
            call.logits(logits.take(1), rows=[2])
    for token in EMITTED[:3]:
        with trace.call() as call:
            call.decode(chat, token)
            if level >= 1:
                call.logits(logits.take(1))


def seen(call: Call, level: int, chat: Sequence, g: Numbers, conv: Numbers) -> None:
    """Writes the tap and the state."""
    if level >= 3:
        empty = bool(call.rows) and call.rows[0]["position"] == 0  # an empty state needs no array
        call.state(chat, {} if empty else {"layers.0.linear_attn.conv_state": conv.take(3)})
    if level >= 4 and call.rows:
        call.tensor("layers.0.linear_attn.g", g.take(len(call.rows)))


def run_in_rounds(trace: Trace, level: int, logits: Numbers, g: Numbers, conv: Numbers) -> None:
    """From level 2 on: rounds of one draft, states before each call, a tap."""
    chat = trace.sequence(slot=0)
    with trace.call() as call:
        call.prompt(chat, PROMPT)
        call.logits(logits.take(1), rows=[2])
        seen(call, level, chat, g, conv)
    for i in (0, 2):  # the draft is right in both rounds
        with trace.call() as call:
            call.verify(chat, EMITTED[i], drafts=[EMITTED[i + 1]], accepted=1, emitted=EMITTED[i + 1 : i + 3])
            call.logits(logits.take(2))
            seen(call, level, chat, g, conv)
    if level >= 3:  # a call without rows: the state after the last round
        with trace.call() as call:
            seen(call, level, chat, g, conv)


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    out, level, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    logits, g = Numbers(folder / "logits.f32", VOCAB), Numbers(folder / "g.f32", HEADS)
    conv = Numbers(folder / "conv_state.f32", CHANNELS)
    with Trace(out, engine="mine 1.0", vocab_size=VOCAB, level=level) as trace:
        if level < 2:
            plain_run(trace, level, logits)
        else:
            run_in_rounds(trace, level, logits, g, conv)


if __name__ == "__main__":
    main()

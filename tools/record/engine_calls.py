"""Common parts of the plug-ins for engines with a scheduler: the sequence of a request, and its rows.

Needs samebit_trace.py in the same folder. For each call, an engine reports the requests in it (Fed), in the order of
their rows, and the logits. The rest is derived here. Without slots a trace has level 1, plus the rounds and their
acceptance.
"""

from dataclasses import dataclass, field
from typing import Any

from samebit_trace import Sequence, Trace, TraceError


@dataclass
class Fed:
    """One request in one call: the tokens fed from `position` on, and their outcome."""

    request: str
    position: int
    tokens: list[int]
    given: int  # tokens of the request's prompt
    drafts: bool = False  # the tokens after the first are drafts
    emitted: list[int] = field(default_factory=list)  # of a round: the accepted drafts and the token after them
    slot: int | None = None  # the slot from which the call reads the state
    state: dict[str, Any] | None = None  # arrays of the state, by the names of docs/state.md

    def logits(self) -> int:
        """The number of rows with logits: only the last row, in a round all rows."""
        return len(self.tokens) if self.drafts else 1


class EngineCalls:
    """A trace of an engine that feeds several requests in one call."""

    def __init__(self, folder: str, engine: str, vocab_size: int, level: int = 1, **head: Any) -> None:
        self.trace = Trace(folder, engine=engine, vocab_size=vocab_size, level=level, **head)
        self.sequences: dict[str, Sequence] = {}

    def _sequence(self, fed: Fed) -> Sequence:
        """A new sequence if the request begins, or is recomputed after a preemption."""
        known = self.sequences.get(fed.request)
        if known is None or known.position != fed.position:
            known = self.sequences[fed.request] = self.trace.sequence(position=fed.position, slot=fed.slot)
        known.slot = fed.slot
        return known

    def call(self, requests: list[Fed], logits: Any, taps: dict[str, Any] | None = None) -> None:
        """One call of the trunk. logits: of the last row of each request, or of all rows of a round; the vocabulary
        may be padded. taps: values of all rows."""
        wanted, at = [], 0
        with self.trace.call() as call:
            for name, tensor in (taps or {}).items():
                call.tensor(name, tensor)
            for fed in requests:
                sequence = self._sequence(fed)
                if fed.state is not None:
                    call.state(sequence, fed.state)
                if fed.drafts:
                    accepted = len(fed.emitted) - 1
                    call.verify(sequence, fed.tokens[0], fed.tokens[1:], accepted, fed.emitted)
                elif len(fed.tokens) == 1 and fed.position >= fed.given:
                    call.decode(sequence, fed.tokens[0])
                else:
                    call.prompt(sequence, fed.tokens)
                at += len(fed.tokens)
                wanted += range(at - fed.logits(), at)
            if logits.shape[0] < len(wanted):
                raise TraceError(f"{logits.shape[0]} rows of logits, expected {len(wanted)}")
            call.logits(logits[: len(wanted), : self.trace.head["vocab_size"]], rows=wanted)

    def drafted(self, tokens: list[int], requests: list[Fed], taps: dict[str, Any]) -> None:
        """One call of the MTP head: a token of each request, after the call of the trunk."""
        with self.trace.call() as call:
            for token, fed in zip(tokens, requests, strict=True):
                call.draft(self.sequences[fed.request], token)
            for name, tensor in taps.items():
                call.tensor(name, tensor)

    def forget(self, request: str) -> None:
        """Ends a request; its name may be used again."""
        self.sequences.pop(request, None)

    def finish(self) -> None:
        """Writes trace.json."""
        self.trace.finish()

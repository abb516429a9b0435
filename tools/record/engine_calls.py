"""What the plug-ins of engines with a scheduler have in common: which sequence a request is, and what its rows are.

Needs samebit_trace.py beside it. An engine says for each of its calls which requests were in it (Fed), in the
order of their rows, and gives the logits it made; the rest is known here. Where it says no slots a trace has level 1,
with the rounds and their acceptance beside it.
"""

from dataclasses import dataclass, field
from typing import Any

from samebit_trace import Sequence, Trace, TraceError


@dataclass
class Fed:
    """One request in one call: the tokens that were fed from position on, and what became of them."""

    request: str
    position: int
    tokens: list[int]
    given: int  # how many tokens of the request its prompt has
    drafts: bool = False  # the tokens behind the first are drafts
    emitted: list[int] = field(default_factory=list)  # of a round: the drafts accepted and the token behind
    slot: int | None = None  # in which the call finds the state
    state: dict[str, Any] | None = None  # its arrays, by the names of docs/state.md

    def logits(self) -> int:
        """Of how many rows engines make logits: the last one, of a round all."""
        return len(self.tokens) if self.drafts else 1


class EngineCalls:
    """A trace of an engine that feeds several requests in one call."""

    def __init__(self, folder: str, engine: str, vocab_size: int, level: int = 1, **head: Any) -> None:
        self.trace = Trace(folder, engine=engine, vocab_size=vocab_size, level=level, **head)
        self.sequences: dict[str, Sequence] = {}

    def _sequence(self, fed: Fed) -> Sequence:
        """A request that begins, or that is computed anew behind a preemption, is a new sequence."""
        known = self.sequences.get(fed.request)
        if known is None or known.position != fed.position:
            known = self.sequences[fed.request] = self.trace.sequence(position=fed.position, slot=fed.slot)
        known.slot = fed.slot
        return known

    def call(self, requests: list[Fed], logits: Any, taps: dict[str, Any] | None = None) -> None:
        """One call of the trunk. logits: those of the last row of each request, of a round of all its rows; the
        vocabulary may be padded. taps: values of all rows."""
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
        """One call of the MTP head: a token of each request, behind the call of the trunk."""
        with self.trace.call() as call:
            for token, fed in zip(tokens, requests, strict=True):
                call.draft(self.sequences[fed.request], token)
            for name, tensor in taps.items():
                call.tensor(name, tensor)

    def forget(self, request: str) -> None:
        """The request has ended; its name may come again."""
        self.sequences.pop(request, None)

    def finish(self) -> None:
        """trace.json"""
        self.trace.finish()

"""What the plug-ins of engines with a scheduler have in common: which sequence a request is, and what its rows are.

Needs samebit_trace.py beside it. An engine says for each of its calls which requests were in it (Fed), in the
order of their rows, and gives the logits it made; the rest is known here. The slots of the engine are not, so a
trace has level 1, with the rounds and their acceptance beside it.
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

    def logits(self) -> int:
        """Of how many rows engines make logits: the last one, of a round all."""
        return len(self.tokens) if self.drafts else 1


class EngineCalls:
    """A trace of an engine that feeds several requests in one call."""

    def __init__(self, folder: str, engine: str, vocab_size: int, **head: Any) -> None:
        self.trace = Trace(folder, engine=engine, vocab_size=vocab_size, level=1, **head)
        self.sequences: dict[str, Sequence] = {}

    def _sequence(self, fed: Fed) -> Sequence:
        """A request that begins, or that is computed anew behind a preemption, is a new sequence."""
        known = self.sequences.get(fed.request)
        if known is None or known.position != fed.position:
            known = self.sequences[fed.request] = self.trace.sequence(position=fed.position)
        return known

    def call(self, requests: list[Fed], logits: Any) -> None:
        """One call of the trunk. logits: those of the last row of each request, of a round of all its rows; the
        vocabulary may be padded."""
        wanted, at = [], 0
        with self.trace.call() as call:
            for fed in requests:
                sequence = self._sequence(fed)
                if fed.drafts:
                    accepted = len(fed.emitted) - 1
                    call.verify(sequence, fed.tokens[0], fed.tokens[1:], accepted, fed.emitted)
                elif len(fed.tokens) == 1 and fed.position >= fed.given:
                    call.decode(sequence, fed.tokens[0])
                else:
                    call.prompt(sequence, fed.tokens)
                at += len(fed.tokens)
                wanted += range(at - fed.logits(), at)
            if len(logits) < len(wanted):
                raise TraceError(f"{len(logits)} rows of logits, expected {len(wanted)}")
            call.logits(logits[: len(wanted), : self.trace.head["vocab_size"]], rows=wanted)

    def forget(self, request: str) -> None:
        """The request has ended; its name may come again."""
        self.sequences.pop(request, None)

    def finish(self) -> None:
        """trace.json"""
        self.trace.finish()

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
    before: list[int] | None = None  # the tokens before `position`; finds the parent after a hit of the prefix cache
    sampling: dict[str, Any] | None = None  # how its tokens are drawn: U-12 of docs/trace.md
    state: dict[str, Any] | None = None  # arrays of the state, by the names of docs/state.md

    def logits(self) -> int:
        """The number of rows with logits: only the last row, in a round all rows."""
        return len(self.tokens) if self.drafts else 1


def resumed(sampling: dict[str, Any]) -> dict[str, Any]:
    """What still holds after a preemption: the generator goes on, and tokens that were generated are fed as a
    prompt, so that it is not known which of them the penalties count."""
    lost = {"seed", "generator"}
    lost |= {key for key in ("presence_penalty", "frequency_penalty") if sampling.get(key)}
    return {key: value for key, value in sampling.items() if key not in lost}


class EngineCalls:
    """A trace of an engine that feeds several requests in one call."""

    def __init__(self, folder: str, engine: str, vocab_size: int, level: int = 1, **head: Any) -> None:
        self.trace = Trace(folder, engine=engine, vocab_size=vocab_size, level=level, **head)
        self.sequences: dict[str, Sequence] = {}
        self.told: dict[int, tuple[Sequence, list[int]]] = {}  # every sequence, and the tokens that it kept

    def _parent(self, before: list[int]) -> Sequence | None:
        """The newest sequence that was fed these tokens first."""
        for sequence, tokens in reversed(self.told.values()):
            if tokens[: len(before)] == before:
                return sequence
        return None

    def _begin(self, fed: Fed) -> Sequence:
        """A new sequence; after a hit of the prefix cache it continues another one."""
        parent = self._parent(fed.before) if fed.position and fed.before is not None else None
        if parent is None:
            begun = self.trace.sequence(position=fed.position, slot=fed.slot)
            self.told[begun.number] = (begun, list(fed.before or []))
        else:
            begun = self.trace.continued(parent, fed.position, slot=fed.slot)
            self.told[begun.number] = (begun, list(fed.before))
        return begun

    def _keep(self, sequence: Sequence, fed: Fed) -> None:
        """Notes the fed tokens that stay."""
        tokens = self.told[sequence.number][1]
        tokens += fed.tokens[: len(fed.emitted)] if fed.drafts else fed.tokens

    def _sequence(self, fed: Fed) -> Sequence:
        """A new sequence if the request begins, or is recomputed after a preemption."""
        known = self.sequences.get(fed.request)
        if known is None or known.position != fed.position:
            known = self.sequences[fed.request] = self._begin(fed)
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
                before = self.sequences.get(fed.request)
                sequence = self._sequence(fed)
                if sequence is not before and fed.sampling is not None:
                    call.sampling(sequence, **(fed.sampling if before is None else resumed(fed.sampling)))
                self._keep(sequence, fed)
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
                raise TraceError(f"the call has {logits.shape[0]} rows of logits, expected {len(wanted)}")
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

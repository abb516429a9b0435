"""Records what SGLang computes as a trace (docs/trace.md, level 1 with rounds).

NOT RUN HERE: written against the published sources of SGLang 0.5.23 (general plug-ins, ModelRunner.forward,
EAGLEWorkerV2.verify) and tested with a stand-in for its model runner, never inside SGLang.

A general plug-in is a function that a package declares as an entry point:

    [project.entry-points."sglang.srt.plugins"]
    samebit = "sglang_plugin:register"

    SAMEBIT_TRACE=t SAMEBIT_TRACE_CALLS=50 python -m sglang.launch_server --model-path CKPT ...

Records the first calls, here 50, and then finishes the trace, because a server ends by a signal. Supports only
chains of drafts (--speculative-eagle-topk 1) and one worker.
"""

import os
from typing import Any

from engine_calls import EngineCalls, Fed
from samebit_trace import TraceError, values

FORWARD = "sglang.srt.model_executor.model_runner.ModelRunner.forward"
VERIFY = "sglang.srt.speculative.eagle_worker_v2.EAGLEWorkerV2.verify"


def numbers(tensor: Any) -> list[int]:
    """A tensor or a list as a list."""
    return [int(n) for n in (tensor if isinstance(tensor, list) else values(tensor).reshape(-1))]


def requests_of(batch: Any) -> list[Fed]:
    """The requests of a ForwardBatch, in the order of their rows."""
    count, mode = len(batch.rids), batch.forward_mode
    tokens, positions = numbers(batch.input_ids), numbers(batch.positions)
    if mode.is_target_verify():
        lengths = [len(tokens) // count] * count
    elif mode.is_decode():
        lengths = [1] * count
    else:
        lengths = numbers(batch.extend_seq_lens)
    fed, at = [], 0
    for request, length in zip(batch.rids, lengths):
        first = positions[at]
        if positions[at : at + length] != list(range(first, first + length)):
            raise TraceError("the drafts of a round are a tree: only a chain can be recorded")
        one = Fed(str(request), first, tokens[at : at + length], given=first + (0 if mode.is_decode() else length))
        one.drafts = mode.is_target_verify()
        fed.append(one)
        at += length
    return fed


class Recording:
    """The hooks; records the first `limit` calls."""

    def __init__(self, calls: EngineCalls, limit: int) -> None:
        self.calls, self.left = calls, limit
        self.waiting: tuple[list[Fed], Any] | None = None  # a round with unknown acceptance

    def _write(self, fed: list[Fed], logits: Any) -> None:
        self.calls.call(fed, logits)
        self.left -= 1
        if self.left == 0:
            self.calls.finish()

    def forward(self, batch: Any, output: Any) -> None:
        """Called after ModelRunner.forward()."""
        logits = getattr(output.logits_output, "next_token_logits", None)
        if self.left <= 0 or logits is None or batch.forward_mode.is_idle():
            return
        fed = requests_of(batch)
        if batch.forward_mode.is_target_verify():
            self.waiting = (fed, values(logits))
        else:
            self._write(fed, values(logits))

    def verified(self, result: Any) -> None:
        """Called after verify(): accept_lens counts the bonus token, next_token_ids has a token per row."""
        if self.left <= 0 or self.waiting is None:
            return
        (fed, logits), self.waiting = self.waiting, None
        lengths, following = numbers(result.accept_lens), numbers(result.next_token_ids)
        at = 0
        for one, length in zip(fed, lengths):
            one.emitted = following[at : at + length]
            at += len(one.tokens)
        self._write(fed, logits)


def register() -> None:
    """The entry point."""
    folder = os.environ.get("SAMEBIT_TRACE")
    if not folder:
        return
    import sglang
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    recording: list[Recording] = []

    def forward(real: Any, runner: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        output = real(runner, batch, *args, **kwargs)
        if not runner.is_draft_worker and getattr(runner, "tp_rank", 0) == 0:
            if not recording:
                limit = int(os.environ.get("SAMEBIT_TRACE_CALLS", "100"))
                engine = f"sglang {sglang.__version__}"
                recording.append(Recording(EngineCalls(folder, engine, runner.model_config.vocab_size), limit))
            recording[0].forward(batch, output)
        return output

    def verify(real: Any, *args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        if recording:
            recording[0].verified(result)
        return result

    HookRegistry.register(FORWARD, forward, HookType.AROUND)
    HookRegistry.register(VERIFY, verify, HookType.AROUND)

"""Records what vLLM computes as a trace (docs/trace.md, level 1 with rounds).

NOT RUN HERE: written against the published sources of vLLM 0.33.0 (worker extensions, SchedulerOutput,
ModelRunnerOutput) and tested with a stand-in for its model runner, never inside vLLM.

    llm = LLM(CKPT, worker_extension_cls="vllm_plugin.Recorder", async_scheduling=False)
    llm.collective_rpc("samebit_start", args=("t",))
    llm.generate(...)
    llm.collective_rpc("samebit_stop")

with this folder on PYTHONPATH. Without async scheduling, because with it the scheduler does not know the drafts
that it sends. One worker: of several, those that make no logits write nothing.
"""

from typing import Any

from engine_calls import EngineCalls, Fed
from samebit_trace import values


class Requests:
    """The tokens of every request, from what the scheduler sends and what was sampled."""

    def __init__(self) -> None:
        self.tokens: dict[str, list[int]] = {}
        self.given: dict[str, int] = {}
        self.position: dict[str, int] = {}

    def schedule(self, scheduled: Any) -> None:
        """A SchedulerOutput."""
        for new in scheduled.scheduled_new_reqs:
            prompt = list(new.prompt_token_ids)
            if self.tokens.get(new.req_id, [])[: len(prompt)] != prompt:
                self.tokens[new.req_id] = prompt
            self.given[new.req_id] = len(prompt)
            self.position[new.req_id] = new.num_computed_tokens
        cached = scheduled.scheduled_cached_reqs
        self.position.update(zip(cached.req_ids, cached.num_computed_tokens))

    def fed(self, request: str, scheduled: Any, sampled: list[int]) -> Fed:
        """What was fed of one request, and what came of it."""
        at, drafts = self.position[request], scheduled.scheduled_spec_decode_tokens.get(request, [])
        own = scheduled.num_scheduled_tokens[request] - len(drafts)
        tokens = self.tokens[request][at : at + own] + list(drafts)
        known = Fed(request, at, tokens, self.given[request], drafts=bool(drafts), emitted=list(sampled))
        self.tokens[request] = self.tokens[request] + list(sampled)
        return known


class Recording:
    """Wraps the three methods of a model runner through which every call goes."""

    def __init__(self, runner: Any, calls: EngineCalls) -> None:
        self.runner, self.calls, self.requests = runner, calls, Requests()
        self.scheduled: Any = None
        self.logits: Any = None
        self.saved: list[tuple[Any, str]] = []
        self._wrap(runner, "execute_model", self._execute)
        self._wrap(runner, "sample_tokens", self._sample)
        self._wrap(runner.model, "compute_logits", self._compute)

    def _wrap(self, owner: Any, name: str, around: Any) -> None:
        real = getattr(owner, name)
        self.saved.append((owner, name))
        setattr(owner, name, lambda *args, **kwargs: around(real, *args, **kwargs))

    def _execute(self, real: Any, scheduled: Any, *args: Any, **kwargs: Any) -> Any:
        self.scheduled, self.logits = scheduled, None
        for request in scheduled.finished_req_ids:
            self.calls.forget(request)
        self.requests.schedule(scheduled)
        return real(scheduled, *args, **kwargs)

    def _compute(self, real: Any, *args: Any, **kwargs: Any) -> Any:
        out = real(*args, **kwargs)
        if self.logits is None and out is not None:  # later ones of the same call are prompt logprobs
            self.logits = values(out)  # a copy: the sampler changes them
        return out

    def _sample(self, real: Any, *args: Any, **kwargs: Any) -> Any:
        output = real(*args, **kwargs)
        if hasattr(output, "get_output"):
            output = output.get_output()
        if self.logits is not None and getattr(output, "req_ids", None):
            fed = [
                self.requests.fed(request, self.scheduled, [int(t) for t in sampled if t >= 0])
                for request, sampled in zip(output.req_ids, output.sampled_token_ids)
            ]
            self.calls.call(fed, self.logits)
        return output

    def stop(self) -> None:
        """The methods as they were, and trace.json."""
        for owner, name in self.saved:
            delattr(owner, name)
        self.calls.finish()


class Recorder:
    """The worker extension: its methods are those of every worker."""

    def samebit_start(self, folder: str) -> None:
        import vllm

        runner = self.model_runner
        vocab_size = runner.model_config.get_vocab_size()
        self.samebit_recording = Recording(runner, EngineCalls(folder, f"vllm {vllm.__version__}", vocab_size))

    def samebit_stop(self) -> None:
        self.samebit_recording.stop()

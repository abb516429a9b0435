"""Cases on mlx-lm, on the CPU: mlx_run.py JOBS.json, in the environment of MLX (tools/gen/engines/make.sh).

JOBS is a list of {case, checkpoint, out}. Greedy, one sequence after the other; with repeat everything is
generated twice. Writes the answers in the layout of /v1/completions (docs/dumps.md), or mlx-lm's message when
it refuses.
"""

import json
import math
import pathlib
import sys
import time
from importlib.metadata import version

import mlx.core as mx
from mlx_lm.generate import generate_step
from mlx_lm.utils import load_model

LIKELIEST = 5


def log_softmax(row):
    """Computes it in binary64 from the logits: mlx-lm subtracts a logarithm in binary32, which loses accuracy
    for likely tokens and says nothing about the model."""
    largest = max(row)
    total = math.log(sum(math.exp(x - largest) for x in row))
    return [x - largest - total for x in row]


def answer(model, prompt, generate):
    """The answer to one prompt: its tokens, and the most likely tokens of each row."""
    tokens, own, tops, rows = [], [], [], []

    def keep(_, logits):
        rows.append(logits[0].astype(mx.float32).tolist())
        return logits

    for token, _ in generate_step(mx.array(prompt), model, max_tokens=generate, logits_processors=[keep]):
        plain = log_softmax(rows[len(tokens)])
        best = sorted(range(len(plain)), key=lambda i: (-plain[i], i))[:LIKELIEST]
        tokens.append(int(token))
        own.append(round(plain[int(token)], 9))
        tops.append({f"token_id:{i}": round(plain[i], 9) for i in best})
    logprobs = {"tokens": [f"token_id:{t}" for t in tokens], "token_logprobs": own, "top_logprobs": tops}
    choice = {"index": 0, "text": "", "logprobs": logprobs, "finish_reason": "length", "token_ids": tokens}
    return {
        "object": "text_completion",
        "choices": [choice | {"prompt_token_ids": prompt}],
        "usage": {"prompt_tokens": len(prompt), "completion_tokens": len(tokens)},
    }


def run(case, checkpoint):
    """Runs the case in mlx-lm."""
    model = load_model(pathlib.Path(checkpoint))[0]
    start = time.monotonic()
    answers = [answer(model, prompt, case["generate"]) for prompt in case["prompts"]]
    result = {"answers": answers, "counters": {}, "seconds": round(time.monotonic() - start, 1)}
    if case["repeat"]:
        result["repeats"] = answers == [answer(model, prompt, case["generate"]) for prompt in case["prompts"]]
    return result


def main():
    """Writes a file for each job in any case."""
    mx.set_default_device(mx.cpu)
    with open(sys.argv[1], encoding="utf-8") as file:
        jobs = json.load(file)
    for job in jobs:
        try:
            result = run(job["case"], job["checkpoint"])
        except Exception as error:  # pylint: disable=broad-except  # a refusal is a result, too
            result = {"refused": f"{type(error).__name__}: {error}"}
        with open(job["out"], "w", encoding="utf-8") as file:
            json.dump(result | {"version": f"mlx-lm {version('mlx-lm')}, mlx {version('mlx')}"}, file)
        print(f"done: {job['out']}", flush=True)


main()

"""Cases on mlx-lm, on the CPU: mlx_run.py JOBS.json, in the environment of MLX (tools/gen/engines/make.sh).

JOBS is a list of {case, checkpoint, out}. Greedy, one sequence after the other. With repeat everything is generated
again: in the same way, with the prompt in parts of other lengths, and with all sequences in one batch; "repeats" says
whether all logits have the same bits. With settings.quantize mlx-lm first quantizes the folder in this mode, to OUT
without its ending and with .mlx. Writes the answers in the layout of /v1/completions (docs/dumps.md), or mlx-lm's
message when it refuses.
"""

import json
import math
import pathlib
import shutil
import sys
import time
from importlib.metadata import version

import mlx.core as mx
from mlx_lm.generate import BatchGenerator, generate_step, speculative_generate_step
from mlx_lm.utils import load_config, quantize_model, save_config, save_model
from mlx_models import loaded

LIKELIEST = 5
WHOLE = 2048  # mlx-lm's own limit for a part of a prompt
PARTS = (1, 16)


def log_softmax(row):
    """Computes it in binary64 from the logits: mlx-lm subtracts a logarithm in binary32, which loses accuracy
    for likely tokens and says nothing about the model."""
    largest = max(row)
    total = math.log(sum(math.exp(x - largest) for x in row))
    return [x - largest - total for x in row]


def keeping(rows):
    """A logits processor that keeps the logits of each token. It leaves them uncomputed: to compute them while a batch
    is under way can wait forever (mlx 0.32.4)."""

    def keep(_, logits):
        rows.append(logits[0].astype(mx.float32))
        return logits

    return keep


def lists(rows, tokens):
    """The logits of the tokens as numbers; mlx-lm computes one row more."""
    return [row.tolist() for row in rows[: len(tokens)]]


def generated(model, case, part=WHOLE):
    """Tokens and logits of each sequence, one sequence after the other."""
    found = []
    for prompt in case["prompts"]:
        rows, options = [], {"max_tokens": case["generate"], "prefill_step_size": part}
        steps = generate_step(mx.array(prompt), model, logits_processors=[keeping(rows)], **options)
        tokens = [int(token) for token, _ in steps]
        found.append((tokens, lists(rows, tokens)))
    return found


def at_once(model, case):
    """The same with all sequences in one batch."""
    rows, tokens = [[] for _ in case["prompts"]], [[] for _ in case["prompts"]]
    batch = BatchGenerator(model, max_tokens=case["generate"])
    batch.insert(case["prompts"], logits_processors=[[keeping(kept)] for kept in rows])
    while said := batch.next_generated():
        for response in said:
            tokens[response.uid].append(int(response.token))
    batch.close()
    return [(ids, lists(kept, ids)) for ids, kept in zip(tokens, rows, strict=True)]


def answer(prompt, tokens, rows):
    """The answer to one prompt: its tokens, and the most likely tokens of each row."""
    own, tops = [], []
    for token, row in zip(tokens, rows, strict=True):
        plain = log_softmax(row)
        best = sorted(range(len(plain)), key=lambda i, x=plain: (-x[i], i))[:LIKELIEST]
        own.append(round(plain[token], 9))
        tops.append({f"token_id:{i}": round(plain[i], 9) for i in best})
    logprobs = {"tokens": [f"token_id:{t}" for t in tokens], "token_logprobs": own, "top_logprobs": tops}
    choice = {"index": 0, "text": "", "logprobs": logprobs, "finish_reason": "length", "token_ids": tokens}
    return {
        "object": "text_completion",
        "choices": [choice | {"prompt_token_ids": prompt}],
        "usage": {"prompt_tokens": len(prompt), "completion_tokens": len(tokens)},
    }


def quantized(checkpoint, mode, folder):
    """The folder that mlx-lm makes of the checkpoint in this mode."""
    model, config = quantize_model(loaded(checkpoint), load_config(pathlib.Path(checkpoint)), None, None, mode=mode)
    shutil.rmtree(folder, ignore_errors=True)
    save_model(folder, model)
    save_config(config, folder / "config.json")
    return folder


def run(case, checkpoint, out):
    """Runs the case in mlx-lm."""
    if mode := case["settings"].get("quantize"):
        checkpoint = quantized(checkpoint, mode, out.with_suffix(".mlx"))
    model = loaded(checkpoint)
    if case["draft"]:  # mlx-lm reads no MTP head: the model itself drafts
        next(speculative_generate_step(mx.array(case["prompts"][0]), model, model, num_draft_tokens=case["draft"]))
        raise NotImplementedError("mlx-lm made drafts, which this adapter does not count")
    start = time.monotonic()
    first = generated(model, case)
    answers = [answer(prompt, *found) for prompt, found in zip(case["prompts"], first, strict=True)]
    result = {"answers": answers, "counters": {}, "seconds": round(time.monotonic() - start, 1)}
    if case["repeat"]:
        result["repeats"] = {"again": generated(model, case) == first}
        result["repeats"] |= {f"parts of {part}": generated(model, case, part) == first for part in PARTS}
        result["repeats"][f"{len(first)} at once"] = at_once(model, case) == first
    return result


def main():
    """Writes a file for each job in any case."""
    with open(sys.argv[1], encoding="utf-8") as file:
        jobs = json.load(file)
    for job in jobs:
        try:
            result = run(job["case"], job["checkpoint"], pathlib.Path(job["out"]))
        except Exception as error:  # pylint: disable=broad-except  # a refusal is a result, too
            result = {"refused": f"{type(error).__name__}: {error}"}
        with open(job["out"], "w", encoding="utf-8") as file:
            json.dump(result | {"version": f"mlx-lm {version('mlx-lm')}, mlx {version('mlx')}"}, file)
        print(f"done: {job['out']}", flush=True)


main()

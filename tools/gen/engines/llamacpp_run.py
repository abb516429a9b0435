"""Cases on llama.cpp: llamacpp_run.py JOBS.json, in the environment of tools/gen/venv.sh (tools/gen/engines/make.sh).

JOBS is a list of {case, checkpoint, out}. Greedy, one sequence after the other; with repeat also in other ways, whose
logits are compared to the bit. Writes the answers in the layout of /v1/completions (docs/dumps.md), or the message of
llama.cpp when it refuses.
"""

import json
import pathlib
import sys
import tempfile

import numpy
from llamacpp import VERSION, calls_of, drafting, record

LIKELIEST = 5
# Other ways to compute the same: name, options, whether the prompt is fed token by token, and the number of prompts. Two
# threads wait for each other by spinning, which takes long on shared processors.
WAYS = (
    ("again", ["-t", "1"], False, 2),
    ("2 threads", ["-t", "2"], False, 1),
    ("micro-batches of 4", ["-t", "1", "-ub", "4"], False, 2),
    ("token by token", ["-t", "1"], True, 2),
)


def log_softmax(row):
    """In binary64."""
    shifted = row.astype(numpy.float64) - row.max()
    return shifted - numpy.log(numpy.exp(shifted).sum())


def generated(prompt, case, checkpoint, options, one_by_one=False):
    """The recording of one prompt: the rounds until enough tokens were emitted, and logits: of the prompt, and
    of each token."""
    more = case["draft"] + 1  # the recorder drafts less near its end, as llama-server does
    words = ["--logits", *options, "-n", str(case["generate"] + more), *drafting(case["draft"])]
    calls = [1] * len(prompt) if one_by_one else [len(prompt)]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "record"
        record(checkpoint, prompt, calls, file, words)
        made = calls_of(file)
    fed = numpy.concatenate([call.logits() for call in made if call.kind == "prompt"])
    tokens, rows, rounds = [int(fed[-1].argmax())], [fed[-1]], []
    for call in made:
        if call.round and len(tokens) < case["generate"]:
            rounds.append(call.round)
            tokens += call.round["emitted"]
            rows += list(call.logits()[: len(call.round["emitted"])])
    return rounds, tokens[: case["generate"]], fed, rows[: case["generate"]]


def answer(prompt, tokens, rows):
    """An answer of /v1/completions."""
    own, tops = [], []
    for token, row in zip(tokens, rows, strict=True):
        plain = log_softmax(row)
        own.append(round(float(plain[token]), 9))
        tops.append({f"token_id:{i}": round(float(plain[i]), 9) for i in numpy.argsort(-plain, kind="stable")[:LIKELIEST]})
    logprobs = {"tokens": [f"token_id:{t}" for t in tokens], "token_logprobs": own, "top_logprobs": tops}
    choice = {"index": 0, "text": "", "logprobs": logprobs, "finish_reason": "length", "token_ids": tokens}
    return {
        "object": "text_completion",
        "choices": [choice | {"prompt_token_ids": prompt}],
        "usage": {"prompt_tokens": len(prompt), "completion_tokens": len(tokens)},
    }


def same_bits(case, checkpoint, way, first):
    """True if this way gives the same tokens and the same bits of all logits."""
    _, options, one_by_one, count = way
    for prompt, (rounds, tokens, fed, rows) in zip(case["prompts"][:count], first[:count], strict=True):
        rounds_2, tokens_2, fed_2, rows_2 = generated(prompt, case, checkpoint, options, one_by_one)
        if (rounds, tokens) != (rounds_2, tokens_2) or fed.tobytes() != fed_2.tobytes():
            return False
        if numpy.array(rows).tobytes() != numpy.array(rows_2).tobytes():
            return False
    return True


def run(case, checkpoint):
    """Runs the case in llama.cpp."""
    options = [word for key, value in case["settings"].items() for word in (key, str(value))]
    found = [generated(prompt, case, checkpoint, ["-t", "1", *options]) for prompt in case["prompts"]]
    rounds = [r for these, *_ in found for r in these]
    counters = {
        "rounds": len(rounds),
        "drafted": sum(len(r["drafts"]) for r in rounds),
        "accepted": [sum(r["accepted"] > depth for r in rounds) for depth in range(case["draft"])],
    }
    answers = [answer(prompt, tokens, rows) for prompt, (_, tokens, _, rows) in zip(case["prompts"], found, strict=True)]
    result = {"answers": answers, "counters": counters if case["draft"] else {}}
    if case["repeat"]:
        result["repeats"] = {way[0]: same_bits(case, checkpoint, way, found) for way in WAYS}
    return result


def main():
    """Writes a file for each job in any case."""
    with open(sys.argv[1], encoding="utf-8") as file:
        jobs = json.load(file)
    for job in jobs:
        try:
            result = run(job["case"], job["checkpoint"])
        except RuntimeError as error:  # a refusal is a result, too
            result = {"refused": str(error)}
        with open(job["out"], "w", encoding="utf-8") as file:
            json.dump(result | {"version": VERSION}, file)
        print(f"done: {job['out']}", flush=True)


main()

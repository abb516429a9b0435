"""Cases on transformers: transformers_run.py JOBS.json, in its environment (tools/gen/engines/make.sh).

JOBS is a list of {case, checkpoint, out}. Greedy, one sequence after the other, the prompt in one call and then
token by token with the cache; with repeat everything is generated twice. Writes the answers in the layout of
/v1/completions (docs/dumps.md), or the message of transformers when it refuses.
"""

import json
import sys
import time

import torch
import transformers

LIKELIEST = 5
CLASSES = {
    "qwen3_5_moe": "Qwen3_5MoeForConditionalGeneration",
    "qwen3_5": "Qwen3_5ForConditionalGeneration",
    "qwen3_next": "Qwen3NextForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}


def answer(model, prompt, generate):
    """The answer to one prompt: its tokens, and the most likely tokens of each row."""
    tokens, own, tops, cache, fed = [], [], [], None, prompt
    for _ in range(generate):
        out = model(input_ids=torch.tensor([fed]), past_key_values=cache, use_cache=True)
        cache, row = out.past_key_values, torch.log_softmax(out.logits[0, -1].double(), -1).tolist()
        best = sorted(range(len(row)), key=lambda i: (-row[i], i))[:LIKELIEST]
        fed = best[:1]
        tokens += fed
        own.append(round(row[fed[0]], 9))
        tops.append({f"token_id:{i}": round(row[i], 9) for i in best})
    logprobs = {"tokens": [f"token_id:{t}" for t in tokens], "token_logprobs": own, "top_logprobs": tops}
    choice = {"index": 0, "text": "", "logprobs": logprobs, "finish_reason": "length", "token_ids": tokens}
    return {
        "object": "text_completion",
        "choices": [choice | {"prompt_token_ids": prompt}],
        "usage": {"prompt_tokens": len(prompt), "completion_tokens": len(tokens)},
    }


@torch.no_grad()
def run(case, checkpoint):
    """Runs the case in transformers."""
    with open(f"{checkpoint}/config.json", encoding="utf-8") as config:
        name = CLASSES[json.load(config)["model_type"]]
    model = getattr(transformers, name).from_pretrained(checkpoint, dtype="auto", attn_implementation="eager").eval()
    start = time.monotonic()
    answers = [answer(model, prompt, case["generate"]) for prompt in case["prompts"]]
    result = {"answers": answers, "counters": {}, "seconds": round(time.monotonic() - start, 1)}
    if case["repeat"]:
        result["repeats"] = answers == [answer(model, prompt, case["generate"]) for prompt in case["prompts"]]
    return result


def main():
    """Writes a file for each job in any case."""
    torch.set_num_threads(1)
    with open(sys.argv[1], encoding="utf-8") as file:
        jobs = json.load(file)
    for job in jobs:
        try:
            result = run(job["case"], job["checkpoint"])
        except Exception as error:  # pylint: disable=broad-except  # a refusal is a result, too
            result = {"refused": f"{type(error).__name__}: {error}"}
        versions = f"transformers {transformers.__version__}, torch {torch.__version__}"
        with open(job["out"], "w", encoding="utf-8") as file:
            json.dump(result | {"version": versions}, file)
        print(f"done: {job['out']}", flush=True)


main()

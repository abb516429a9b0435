#!/usr/bin/env python3
"""Writes server answers from recorded logits, in the layouts of the servers' sources; the servers did not write them.

    answer_fixtures.py OUT CKPT PROMPT LOGITS.npy TRACE

CKPT has a tokenizer.json; PROMPT is "1,2,3"; LOGITS has a row per fed token, as written by samebit run --logits;
TRACE is the trace of the same run, with router_ids. Writes

    vllm.json         a completion of vLLM with prompt_logprobs, return_token_ids, return_tokens_as_token_ids, routed_experts
    chat.json         an OpenAI-style chat with texts and bytes
    echo.json         a completion with echo: its list includes the prompt
    llama-server.json completion_probabilities;  llama-server-prob.json: with post_sampling_probs
    sglang.json       /generate with input and output lists
    all.jsonl         all of them, one per line
"""
import base64
import glob
import io
import json
import os
import sys

import numpy as np
from safetensors.numpy import load_file

K = 5


def log_softmax(x):
    x = x.astype(np.float32)
    shifted = x - x.max()
    return (shifted - np.log(np.exp(shifted).sum(dtype=np.float32))).astype(np.float32)


class Run:
    def __init__(self, checkpoint, prompt, logits, trace):
        self.prompt = [int(t) for t in prompt.split(",")]
        self.rows = [log_softmax(x) for x in np.load(logits)]
        self.out = [int(r.argmax()) for r in self.rows[len(self.prompt) - 1:]]
        self.texts = self.read_texts(checkpoint)
        self.experts = self.read_experts(trace)

    @staticmethod
    def read_texts(checkpoint):
        with open(os.path.join(checkpoint, "tokenizer.json"), encoding="utf-8") as f:
            model = json.load(f)
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        alphabet = {chr(b): b for b in printable}
        alphabet.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)})
        texts = {i: bytes(alphabet[c] for c in t) for t, i in model["model"]["vocab"].items()}
        texts.update({t["id"]: t["content"].encode() for t in model["added_tokens"]})
        return texts

    def read_experts(self, trace):
        steps = [load_file(f) for f in sorted(glob.glob(os.path.join(trace, "step-*.safetensors")))]
        layers = sorted({int(n.split(".")[1]) for s in steps for n in s
                         if n.startswith("layers.") and n.endswith("mlp.router_ids")})
        name = "layers.%d.mlp.router_ids"
        rows = [np.stack([s[name % n] for n in layers], 1) for s in steps if name % 0 in s]
        return np.concatenate(rows).astype(np.uint8)[: len(self.prompt) + len(self.out) - 1]

    def text(self, token):
        return self.texts[token].decode(errors="replace")

    def before(self, i):  # the distribution of token i of the sequence
        return self.rows[i - 1]

    def top(self, i):
        return np.argsort(-self.before(i), kind="stable")[:K]


def vllm(run):
    everything = run.prompt + run.out

    def entry(i):
        p, own = run.before(i), everything[i]
        ids = [own] + [int(t) for t in run.top(i) if t != own]
        return {str(t): {"logprob": float(p[t]), "rank": int((p > p[t]).sum()) + 1,
                         "decoded_token": run.text(t)} for t in ids}

    npy = io.BytesIO()
    np.save(npy, run.experts)
    n = len(run.prompt)
    places = range(n, len(everything))
    return {"id": "cmpl-0", "object": "text_completion", "created": 0, "model": "T1",
            "choices": [{
                "index": 0, "text": "".join(run.text(t) for t in run.out),
                "logprobs": {
                    "text_offset": [0] * len(run.out),
                    "token_logprobs": [float(run.before(i)[everything[i]]) for i in places],
                    "tokens": ["token_id:%d" % t for t in run.out],
                    "top_logprobs": [{"token_id:%d" % t: float(run.before(i)[t]) for t in run.top(i)} for i in places]},
                "finish_reason": "length", "stop_reason": None, "token_ids": run.out,
                "prompt_logprobs": [None] + [entry(i) for i in range(1, n)],
                "prompt_token_ids": run.prompt,
                "routed_experts": base64.b64encode(npy.getvalue()).decode()}],
            "usage": {"prompt_tokens": n, "total_tokens": len(everything), "completion_tokens": len(run.out)}}


def item(run, token, p, with_id=False, post=False):
    value = float(np.exp(p[token], dtype=np.float32)) if post else float(p[token])
    out = {"id": int(token)} if with_id else {}
    out.update({"token": run.text(token), "bytes": list(run.texts[token]), "prob" if post else "logprob": value})
    return out


def items(run, with_id=False, post=False):
    n = len(run.prompt)
    return [dict(item(run, t, run.before(n + i), with_id, post),
                 **{"top_probs" if post else "top_logprobs":
                    [item(run, int(k), run.before(n + i), with_id, post) for k in run.top(n + i)]})
            for i, t in enumerate(run.out)]


def chat(run):
    return {"id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": "T1",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": ""},
                         "logprobs": {"content": items(run)}, "finish_reason": "length"}],
            "usage": {"prompt_tokens": len(run.prompt), "completion_tokens": len(run.out)}}


def echo(run):
    everything = run.prompt + run.out

    def top(i):  # adds the token itself if it is not among the largest
        ids = [int(t) for t in run.top(i)]
        ids += [] if everything[i] in ids else [everything[i]]
        return {"token_id:%d" % t: float(run.before(i)[t]) for t in ids}

    places = range(1, len(everything))
    return {"id": "cmpl-1", "object": "text_completion", "model": "T1",
            "choices": [{"index": 0, "text": "", "finish_reason": "length",
                         "logprobs": {"tokens": ["token_id:%d" % t for t in everything],
                                      "token_logprobs": [None] + [float(run.before(i)[everything[i]]) for i in places],
                                      "top_logprobs": [None] + [top(i) for i in places],
                                      "text_offset": [0] * len(everything)}}],
            "usage": {"prompt_tokens": len(run.prompt), "completion_tokens": len(run.out)}}


def llama_server(run, post=False):
    return {"index": 0, "content": "", "tokens": run.out, "model": "T1", "tokens_predicted": len(run.out),
            "tokens_evaluated": len(run.prompt), "prompt": "", "stop": True,
            "completion_probabilities": items(run, True, post),
            "timings": {"prompt_n": len(run.prompt), "predicted_n": len(run.out)}}


def sglang(run):
    everything, n = run.prompt + run.out, len(run.prompt)

    def triples(i):
        return [[float(run.before(i)[t]), int(t), None] for t in run.top(i)]

    def own(i):
        return [float(run.before(i)[everything[i]]) if i else None, everything[i], None]

    return {"text": "", "output_ids": run.out,
            "meta_info": {"id": "0", "finish_reason": {"type": "length", "length": len(run.out)},
                          "prompt_tokens": n, "completion_tokens": len(run.out), "cached_tokens": 0,
                          "input_token_logprobs": [own(i) for i in range(n)],
                          "output_token_logprobs": [own(i) for i in range(n, len(everything))],
                          "input_top_logprobs": [None] + [triples(i) for i in range(1, n)],
                          "output_top_logprobs": [triples(i) for i in range(n, len(everything))],
                          "spec_verify_ct": 0}}


def main():
    out, run = sys.argv[1], Run(*sys.argv[2:6])
    documents = {"vllm": vllm(run), "chat": chat(run), "echo": echo(run), "llama-server": llama_server(run),
                 "llama-server-prob": llama_server(run, True), "sglang": sglang(run)}
    for name, document in documents.items():
        with open(os.path.join(out, name + ".json"), "w", encoding="utf-8") as f:
            json.dump(document, f, indent=None if name == "sglang" else 1)
            f.write("\n")
    with open(os.path.join(out, "all.jsonl"), "w", encoding="utf-8") as f:
        f.writelines(json.dumps(d) + "\n" for d in documents.values())


main()

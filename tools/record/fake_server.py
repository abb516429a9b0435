#!/usr/bin/env python3
"""A completion server for tests: correct, or with one fault that was reported for real servers.

    fake_server.py [--style llama-server|vllm] [--fault NAME] [--no-speculation] [--port N]

It listens on the loopback address only and prints its URL. Its model is a table with the token after two tokens.
Tokens depend on no random numbers and no clock, so the counts that a test expects are reproducible.
"""

import argparse
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VOCABULARY = 384
END = VOCABULARY - 1  # ends a text; ignore_eos excludes it
CONTEXT = 2048
BLOCK = 16
DRAFTS = 3
FAULTS = {
    "none": "every answer is right",
    "slow": "right, and slow",
    "near-tie": "right: which of two nearly equal tokens is chosen depends on the circumstances",
    "cache-mtp": "17 of 32 answers are wrong where a prompt is in the cache and tokens are drafted",
    "cache": "every other answer is wrong where the prompt is in the cache",
    "stale-logprobs": "prompt_logprobs belong to the previous request if the prompt is in the cache",
    "concurrency": "one prompt in four gets other tokens while others are answered",
    "neighbours": "other tokens where another prompt of the same length is answered at the same time",
    "twins": "other tokens where the same prompt is answered at the same time",
    "multi-accept": "the token after two or more accepted drafts comes from a wrong state",
    "block-edge": "a token that would end a block of 16 is lost",
    "not-largest": "one token in 32 is not the likeliest of its own list",
    "bad-json": "every 16th answer is cut off",
    "nan": "every 16th answer has a log-probability that is not a number",
    "http-500": "every 16th answer is an internal error",
    "other-prompt": "the first token of a prompt of 64 is lost",
    "strict": "right, but the server refuses the field ignore_eos",
    "constant": "vacuous: always the same token",
    "no-cache": "vacuous: nothing is ever found in the cache",
    "no-switch": "vacuous: drafts although none are wanted",
    "one-at-a-time": "vacuous: requests wait for one another",
}


def mixed(value: int) -> int:
    """A pseudo-random number of 64 bits (splitmix64)."""
    value = (value + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return value ^ (value >> 31)


def distribution(context: list[int], wrong: bool, ties: bool, flip: bool) -> list[tuple[int, float]]:
    """The five most likely tokens and their log-probabilities, the largest first."""
    seed = mixed(context[-1] * VOCABULARY + (context[-2] if len(context) > 1 else 0) + (1 << 40) * wrong)
    ids = [(seed + k * (1 + (seed >> 20) % 70)) % END for k in range(5)]
    gap = 0.5 + (seed >> 32) % 100 / 50
    if ties and (seed >> 48) % 32 == 0:
        gap = 0.001
        if flip:
            ids[0], ids[1] = ids[1], ids[0]
    return [(token, -0.25 - (0 if k == 0 else gap + 0.5 * (k - 1))) for k, token in enumerate(ids)]


class Model:
    """The fake's answers to a request under given circumstances."""

    def __init__(self, fault: str, drafts: int) -> None:
        self.fault, self.drafts = fault, drafts
        self.lock = threading.Lock()
        self.turn = threading.Lock()
        self.cache: list[tuple[Any, ...]] = []
        self.active: set[int] = set()
        self.met: set[int] = set()  # active requests that had others at the same time
        self.asked: dict[int, list[int]] = {}  # the prompts of active requests
        self.beside: dict[int, list[list[int]]] = {}  # the prompts that were active at the same time as a request
        self.requests = self.hits = self.rounds = self.drafted = self.accepted = 0
        self.told: list[Any] = [None]  # prompt_logprobs of the previous request

    def enter(self, prompt: list[int]) -> int:
        with self.lock:
            self.requests += 1
            number = self.requests
            self.beside[number] = list(self.asked.values())
            for other in self.asked:
                self.beside[other].append(prompt)
            self.asked[number] = prompt
            self.active.add(number)
            if len(self.active) > 1:
                self.met |= self.active
        return number

    def leave(self, number: int) -> None:
        with self.lock:
            self.active.discard(number)
            self.met.discard(number)
            del self.asked[number], self.beside[number]

    def circumstances(
        self, number: int, prompt: list[int], cache: bool, salt: str, speculation: bool
    ) -> dict[str, Any]:
        time.sleep({"slow": 0.2, "concurrency": 0.1, "neighbours": 0.3, "twins": 0.3}.get(self.fault, 0.004))
        key = (salt, *prompt)
        with self.lock:
            alone = number not in self.met
            hit = cache and key in self.cache and self.fault != "no-cache"
            if key not in self.cache:
                self.cache.append(key)
            wrong = False
            if hit and (speculation or self.fault == "cache"):
                self.hits += 1
                wrong = self.fault == "cache-mtp" and self.hits * 17 % 32 < 17
                wrong |= self.fault == "cache" and self.hits % 2 == 0
            beside = self.beside[number]
            wrong |= self.fault == "neighbours" and any(len(p) == len(prompt) for p in beside)
            wrong |= self.fault == "twins" and prompt in beside
            wrong |= self.fault == "concurrency" and not alone and sum(prompt) % 4 == 0
        return {"hit": hit, "alone": alone, "wrong": wrong, "speculation": speculation}

    def answer(self, prompt: list[int], count: int, around: dict[str, Any]) -> dict[str, Any]:
        """Tokens with their lists, in rounds if there are drafts."""
        context, lists, tokens, drafts = list(prompt), [], [], []
        bonus_wrong, drafted, accepted, left = False, 0, 0, 0
        flip = (around["hit"] or not around["alone"] or around["speculation"]) and self.fault == "near-tie"
        at = len(prompt)
        while len(tokens) < count:
            wrong = bonus_wrong or (around["wrong"] and len(tokens) == 3)
            bonus_wrong = False
            top = distribution(context, wrong, self.fault == "near-tie", flip)
            if self.fault == "constant":
                top = [(7, -0.1), (8, -3.0)]
            token = top[0][0]
            if self.fault == "not-largest" and mixed(context[-1] + 1000 * context[-2]) % 32 == 0:
                token = top[1][0]
            context.append(token)
            at += 1
            if not (self.fault == "block-edge" and at % BLOCK == 0):
                tokens.append(token)
                lists.append(top)
                drafts.append(left > 1)
            if around["speculation"]:
                if left == 0:
                    taken = mixed(sum(context)) % (DRAFTS + 1)
                    drafted, accepted, left = drafted + DRAFTS, accepted + taken, taken + 1
                    last = taken
                left -= 1
                bonus_wrong = self.fault == "multi-accept" and left == 0 and last >= 2
        with self.lock:
            self.rounds += drafted // DRAFTS
            self.drafted += drafted
            self.accepted += accepted
        return {"tokens": tokens, "lists": lists, "drafts": drafts, "drafted": drafted, "accepted": accepted}

    def prompt_logprobs(self, prompt: list[int], hit: bool) -> list[Any]:
        """In vLLM's form: null, then per token the most likely tokens and the token itself."""
        out: list[Any] = [None]
        for i in range(1, len(prompt)):
            token, logprob = distribution(prompt[:i], False, False, False)[0]
            entry = {str(token): {"logprob": logprob, "rank": 1, "decoded_token": f"<{token}>"}}
            entry.setdefault(str(prompt[i]), {"logprob": -9.0, "rank": 99, "decoded_token": f"<{prompt[i]}>"})
            out.append(entry)
        with self.lock:
            stale, self.told = self.told, out
        return stale if hit and self.fault == "stale-logprobs" else out


def as_llama(prompt: list[int], a: dict[str, Any], around: dict[str, Any]) -> dict[str, Any]:
    def item(token: int, p: float) -> dict[str, Any]:
        return {"id": token, "token": f"<{token}>", "bytes": list(f"<{token}>".encode()), "logprob": p}

    probabilities = []
    for token, top, draft in zip(a["tokens"], a["lists"], a["drafts"]):
        if draft:  # like the real server, which omits a token that ends inside a character
            probabilities.append({**item(token, 0.0), "top_logprobs": []})
        elif token % 50 or top[0][1] - top[1][1] < 0.01:
            own = dict(top).get(token, -20.0)
            listed = [(END, -0.01), *top] if token % 7 == 0 else top
            probabilities.append({**item(token, own), "top_logprobs": [item(t, p) for t, p in listed]})
    cached = len(prompt) - 1 if around["hit"] else 0
    timings = {"cache_n": cached, "prompt_n": len(prompt) - cached, "predicted_n": len(a["tokens"])}
    if a["drafted"]:
        timings |= {"draft_n": a["drafted"], "draft_n_accepted": a["accepted"]}
    return {
        "index": 0,
        "content": "".join(f"<{t}>" for t in a["tokens"]),
        "tokens": a["tokens"],
        "stop": True,
        "tokens_predicted": len(a["tokens"]),
        "tokens_evaluated": len(prompt),
        "generation_settings": {"logit_bias": [{"bias": None, "token": END}]},
        "completion_probabilities": probabilities,
        "timings": timings,
    }


def as_vllm(prompt: list[int], a: dict[str, Any], around: dict[str, Any]) -> dict[str, Any]:
    tokens = a["tokens"]
    choice = {
        "index": 0,
        "text": "".join(f"<{t}>" for t in tokens),
        "logprobs": {
            "text_offset": [0] * len(tokens),
            "tokens": [f"token_id:{t}" for t in tokens],
            "token_logprobs": [dict(top).get(t, -20.0) for t, top in zip(tokens, a["lists"])],
            "top_logprobs": [{f"token_id:{t}": p for t, p in top} for top in a["lists"]],
        },
        "finish_reason": "length",
        "token_ids": tokens,
        "prompt_token_ids": prompt,
        "prompt_logprobs": a.get("prompt_logprobs"),
    }
    cached = len(prompt) // BLOCK * BLOCK if around["hit"] else 0
    usage = {"prompt_tokens": len(prompt), "completion_tokens": len(tokens), "total_tokens": len(prompt) + len(tokens)}
    usage["prompt_tokens_details"] = {"cached_tokens": cached}
    return {"id": "cmpl-0", "object": "text_completion", "model": "fake", "choices": [choice], "usage": usage}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: a second packet would wait for the first
    server: "Fake"

    def log_message(self, *_: Any) -> None:
        pass

    def reply(self, status: int, body: Any) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        try:
            self.end_headers()
            self.wfile.write(data)
        except ConnectionError:  # the client is gone
            self.close_connection = True

    def do_GET(self) -> None:  # noqa: N802, the name is the library's
        model, llama = self.server.model, self.server.style == "llama-server"
        if self.path == "/v1/models":
            owner = {"owned_by": "llamacpp"} if llama else {"owned_by": "vllm", "max_model_len": CONTEXT}
            self.reply(200, {"object": "list", "data": [{"id": "fake", "object": "model", **owner}]})
        elif self.path == "/props" and llama:
            slots = 1 if model.fault == "one-at-a-time" else 8
            self.reply(200, {"default_generation_settings": {"n_ctx": CONTEXT}, "total_slots": slots})
        elif self.path == "/version" and not llama:
            self.reply(200, {"version": "fake"})
        elif self.path == "/metrics":
            rows = {"num_drafts": model.rounds, "num_draft_tokens": model.drafted}
            rows |= {"num_accepted_tokens": model.accepted}
            self.reply(200, "".join(f'vllm:spec_decode_{k}_total{{engine="0"}} {v}.0\n' for k, v in rows.items()))
        else:
            self.reply(404, {"error": "no such path"})

    def do_POST(self) -> None:  # noqa: N802
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            text = body.get("content", body.get("prompt", ""))
            return self.reply(200, {"tokens": [b % VOCABULARY for b in text.encode()]})
        if self.path != ("/completion" if self.server.style == "llama-server" else "/v1/completions"):
            return self.reply(404, {"error": "no such path"})
        model = self.server.model
        if model.fault == "one-at-a-time":
            with model.turn:
                return self.complete(body)
        return self.complete(body)

    def complete(self, body: dict[str, Any]) -> None:
        model, llama = self.server.model, self.server.style == "llama-server"
        prompt, count = body["prompt"], body["n_predict" if llama else "max_tokens"]
        if model.fault == "strict" and "ignore_eos" in body:
            return self.reply(422, {"detail": [{"loc": ["body", "ignore_eos"], "msg": "Extra inputs are not permitted"}]})
        if len(prompt) + count > CONTEXT:
            return self.reply(400, {"error": "too long"})
        speculation = model.drafts > 0 and (model.fault == "no-switch" or body.get("speculative.n_max") != 0)
        number = model.enter(prompt)
        try:
            around = model.circumstances(
                number, prompt, body.get("cache_prompt", True), body.get("cache_salt", ""), speculation
            )
            fed = prompt[1:] if model.fault == "other-prompt" and len(prompt) == 64 else prompt
            a = model.answer(fed, count, around)
            if body.get("prompt_logprobs") is not None:
                a["prompt_logprobs"] = model.prompt_logprobs(prompt, around["hit"])
            text = json.dumps((as_llama if llama else as_vllm)(fed, a, around))
        finally:
            model.leave(number)
        bad = number % 16 == 0
        if model.fault == "http-500" and bad:
            return self.reply(500, {"error": {"message": "planted"}})
        if model.fault == "bad-json" and bad:
            text = text[: len(text) // 2]
        if model.fault == "nan" and bad:
            text = text.replace("-0.25", "NaN", 1)
        self.reply(200, text)


class Fake(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int, style: str, fault: str, drafts: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.style, self.model = style, Model(fault, drafts)


def main() -> None:
    faults = "\n".join(f"  {name:16}{what}" for name, what in FAULTS.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=f"faults:\n{faults}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--style", choices=["llama-server", "vllm"], default="llama-server")
    parser.add_argument("--fault", choices=list(FAULTS), default="none")
    parser.add_argument("--no-speculation", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    args = parser.parse_args()
    fake = Fake(args.port, args.style, args.fault, 0 if args.no_speculation else DRAFTS)
    print(f"http://127.0.0.1:{fake.server_address[1]}", flush=True)
    try:
        fake.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()

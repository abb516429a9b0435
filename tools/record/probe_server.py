"""One server: its kind, and requests to it. Every request is greedy, with a seed that should not matter."""

import argparse
import json
import time
import urllib.error
import urllib.request
from typing import Any

LIMIT = 64 << 20  # bytes of an answer
PATHS = {"llama-server": "/completion", "vllm": "/v1/completions", "openai": "/v1/completions", "sglang": "/generate"}
# Optional fields: if a server refuses unknown fields, the fields that it names are left out.
SPARE = ("ignore_eos", "return_token_ids", "return_tokens_as_token_ids")
ASKED = ("/v1/models", "/props", "/version", "/get_model_info")


class Refused(ValueError):
    """The server or the input cannot be used; the message says why."""


class Reply:
    """The status is None if there was no answer; then text has the reason."""

    def __init__(self, status: int | None, text: str, path: str = "", body: Any = None) -> None:
        self.status, self.text, self.path, self.body = status, text, path, body


class Server:
    def __init__(self, url: str, args: argparse.Namespace) -> None:
        if not url.startswith(("http://", "https://")):
            raise Refused(f"{url}: is not a URL, expected http://HOST:PORT")
        self.url, self.args = url.rstrip("/"), args
        if self.url.endswith("/v1"):
            self.url = self.url[:-3]
        self.identity = {path: self.get(path) for path in ASKED}
        if all(reply.status is None for reply in self.identity.values()):
            raise Refused(f"{url}: {self.identity['/v1/models'].text}")
        self.kind = args.kind or self._kind()
        models = self._data("/v1/models").get("data") or [{}]
        self.model = args.model or models[0].get("id")
        self.context = self._context(models[0])
        self.has_switch = self.kind == "llama-server"  # speculative.n_max; some versions ignore it
        self.can_be_fresh = self.kind in ("llama-server", "vllm")
        self.tells_prompt = self.kind == "vllm"
        self.without: set[str] = set()  # the fields of SPARE that the server refused

    def _data(self, path: str) -> dict[str, Any]:
        try:
            found = json.loads(self.identity[path].text) if self.identity[path].status == 200 else {}
        except ValueError:
            found = {}
        return found if isinstance(found, dict) else {}

    def _kind(self) -> str:
        if self._data("/props"):
            return "llama-server"
        if self._data("/get_model_info"):
            return "sglang"
        return "vllm" if self._data("/version") else "openai"

    def _context(self, model: dict[str, Any]) -> int | None:
        settings = self._data("/props").get("default_generation_settings") or {}
        found = [settings.get("n_ctx"), model.get("max_model_len")]
        return next((n for n in found if type(n) is int and n > 0), None)

    def get(self, path: str) -> Reply:
        return self._send(urllib.request.Request(self.url + path), self.args.timeout)

    def post(self, path: str, body: Any, timeout: float) -> Reply:
        head = {"Content-Type": "application/json"}
        return self._send(urllib.request.Request(self.url + path, json.dumps(body).encode(), head), timeout)

    def _send(self, request: urllib.request.Request, timeout: float) -> Reply:
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                data = answer.read(LIMIT + 1)
                status = answer.status
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, error.read(LIMIT).decode(errors="replace"))
        except Exception as error:  # http.client raises more exceptions than documented
            return Reply(None, f"{type(error).__name__}: {error}")
        if len(data) > LIMIT:
            return Reply(None, "the answer has more than 64 MiB")
        return Reply(status, data.decode(errors="replace"))

    def tokenize(self, text: str) -> list[int]:
        body = {"content": text} if self.kind == "llama-server" else {"model": self.model, "prompt": text}
        reply = self.post("/tokenize", body, 60)
        try:
            found = json.loads(reply.text)["tokens"] if reply.status == 200 else None
        except (ValueError, KeyError, TypeError):
            found = None
        if not found or any(type(t) is not int for t in found):
            raise Refused(f"{self.url} does not tokenize: give ids with --ids")
        return found

    def _body(self, entry: dict[str, Any]) -> dict[str, Any]:
        ids, n, top = entry["ids"], entry["n"], self.args.top
        if self.kind == "llama-server":
            body = {"prompt": ids, "n_predict": n, "n_probs": top, "temperature": 0, "seed": 42, "ignore_eos": True}
            body |= {"return_tokens": True, "cache_prompt": not entry.get("fresh")}
            return body if entry["speculation"] else body | {"speculative.n_max": 0}
        if self.kind == "sglang":
            sampling = {"temperature": 0, "max_new_tokens": n, "ignore_eos": True}
            return {"input_ids": ids, "sampling_params": sampling, "return_logprob": True, "top_logprobs_num": top}
        body = {"model": self.model, "prompt": ids, "max_tokens": n, "temperature": 0, "seed": 42, "logprobs": top}
        if self.kind == "vllm":
            body |= {"return_token_ids": True, "return_tokens_as_token_ids": True, "ignore_eos": True}
            body |= {"cache_salt": f"probe {entry['share']}"}
            if entry.get("told"):
                body["prompt_logprobs"] = 1
        return body

    def _spared(self, body: dict[str, Any], names: set[str]) -> dict[str, Any]:
        out = {k: v for k, v in body.items() if k not in names}
        if "sampling_params" in out:
            out["sampling_params"] = {k: v for k, v in out["sampling_params"].items() if k not in names}
        return out

    def complete(self, entry: dict[str, Any], timeout: float) -> Reply:
        """The reply, and the request's body without fields that the server refuses."""
        path, until = PATHS[self.kind], time.monotonic() + timeout
        while True:
            without = set(self.without)
            body = self._spared(self._body(entry), without)
            reply = self.post(path, body, max(0.001, until - time.monotonic()))
            reply.path, reply.body = path, body
            refused = {name for name in SPARE if name in reply.text} if reply.status in (400, 422) else set()
            if not refused - without:
                return reply
            self.without |= refused

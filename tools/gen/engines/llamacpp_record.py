"""Records llama.cpp's inner values: llamacpp_record.py CKPT OUT DRAFTS [FAULT...], in the environment of tools/gen/venv.sh.

OUT/none is the trace of the unchanged engine, OUT/FAULT the trace with a mistake of tools/record/llamacpp/faults.def.
Without FAULT all that the model can have. Skips a fault whose folder exists. In the environment, PROMPT=3+1 GENERATE=4
selects calls of three and one tokens for the prompt and four generated tokens (default: 4+2 and 8), and TAPS the arrays
that a trace keeps, as patterns with spaces between them.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from llamacpp import RECORD, drafting, record

CALLS = [int(rows) for rows in os.environ.get("PROMPT", "4+2").split("+")]
PROMPT = [(7 * i + 3) % 360 for i in range(sum(CALLS))]
GENERATE = os.environ.get("GENERATE", "8")
TAPS = os.environ.get("TAPS", "*").split()


def possible(checkpoint: str, drafts: int) -> list[str]:
    """The mistakes that this model can have, by the headings of the list."""
    text = (RECORD / "faults.def").read_text(encoding="ascii")
    config = pathlib.Path(checkpoint, "config.json").read_text(encoding="utf-8")
    hybrid, mixture = '"linear_num_value_heads"' in config, '"num_experts"' in config
    has = {"any model": True, "Qwen3": not hybrid, "hybrids": hybrid, "rounds of drafts": drafts > 0, "mixtures": mixture}
    has["shared experts"] = mixture and hybrid
    parts = re.findall(r"\n// ([\w ]+)\n((?:LLAMA_FAULT.*\n)+)", text)
    return [name for heading, part in parts if has[heading] for name in re.findall(r"LLAMA_FAULT\((\w+)", part)]


def trace(checkpoint: str, folder: pathlib.Path, drafts: int, fault: str) -> None:
    """Records one trace. The program with the mistakes must give the bits of the other one if none is selected."""
    options = ["-t", "1", "-n", GENERATE, *drafting(drafts)]
    with tempfile.TemporaryDirectory() as work:
        recording, again = pathlib.Path(work) / "record", pathlib.Path(work) / "again"
        record(checkpoint, PROMPT, CALLS, recording, options, fault or None)
        if not fault:
            record(checkpoint, PROMPT, CALLS, again, options, "")
            if recording.read_bytes() != again.read_bytes():
                raise RuntimeError("llama_record_faulty without a fault gives other bits than llama_record")
        words = [sys.executable, str(RECORD / "to_trace.py"), str(recording), checkpoint, str(folder), "--taps", *TAPS]
        subprocess.run(words, check=True)


def main() -> None:
    """Exit status 1 if a recording failed."""
    checkpoint, out, drafts, *faults = sys.argv[1:]
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    failed = 0
    for fault in faults or ["none", *possible(checkpoint, int(drafts))]:
        folder = pathlib.Path(out) / fault
        if folder.exists():
            continue
        try:
            trace(checkpoint, folder, int(drafts), "" if fault == "none" else fault)
            print(f"done: {fault}", flush=True)
        except RuntimeError as error:
            print(f"{fault}: {error}", flush=True)
            failed = 1
    sys.exit(failed)


main()

"""What the recorders of engines share: prompts, and a process of its own for each planted mistake.

PROMPTS=3 GENERATE=4 in the environment selects one prompt of three tokens and four generated tokens (default: 5,9 and
8). CALLS=2 keeps the first two calls of a trace only.
"""

import json
import os
import pathlib
import sys
from collections.abc import Callable, Iterable

from cases import prompt

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "record"))
LENGTHS = [int(length) for length in os.environ.get("PROMPTS", "5,9").split(",")]
PROMPTS = [prompt(number, length) for number, length in enumerate(LENGTHS)]
GENERATE = int(os.environ.get("GENERATE", "8"))


def shortened(folder: str, calls: int) -> None:
    """Keeps the first calls of a trace."""
    path = pathlib.Path(folder, "trace.json")
    trace = json.loads(path.read_text(encoding="utf-8"))
    for step in trace["steps"][calls:]:
        pathlib.Path(folder, f"step-{step['step']:06}.safetensors").unlink(missing_ok=True)
    trace["steps"] = trace["steps"][:calls]
    path.write_text(json.dumps(trace, separators=(",", ":")) + "\n", encoding="utf-8")


def is_mixture(checkpoint: str) -> bool:
    """True if the model has experts."""
    return "num_experts" in pathlib.Path(checkpoint, "config.json").read_text(encoding="utf-8")


def record_all(out: str, faults: Iterable[str], record: Callable[[str, str], None]) -> None:
    """record(OUT/FAULT, FAULT) in a process for each fault. Skips a fault whose folder exists; exits with status 1 if
    one could not be recorded."""
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    failed = 0
    for fault in faults:
        folder = f"{out}/{fault}"
        if os.path.exists(folder):
            continue
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                record(folder, fault)
                if "CALLS" in os.environ:
                    shortened(folder, int(os.environ["CALLS"]))
                code = 0
            except Exception as error:  # pylint: disable=broad-except  # the others still run
                print(f"{fault}: {type(error).__name__}: {error}", flush=True)
                code = 1
            os._exit(code)  # ends all threads and processes that the engine started
        failed |= os.waitpid(child, 0)[1]
        print(f"done: {fault}", flush=True)
    sys.exit(failed != 0)


def chosen(asked: list[str], faults: dict[str, object], can: Iterable[str]) -> list[str]:
    """The faults of the command line, or the unchanged engine and every fault that the model can have."""
    if unknown := set(asked) - {"none", *faults}:
        raise SystemExit(f"there is no planted mistake {', '.join(sorted(unknown))}")
    return asked or ["none", *can]

"""Makes docs/check/quantizers.md: the matrix of quantizers, and the findings of `samebit` for each folder.

The outcomes are the lines of quant_matrix.sh: name, outcome, warnings, law of the values, evidence, separated by tabs.
"""

import re
from pathlib import Path

from quant.matrix import PRODUCERS, Row

HERE = Path(__file__).resolve().parent

TEXT = """# Quantizers, and what `check` says of their folders

Written by `tools/gen/quant_matrix.sh --write` (a step of `make crosscheck` makes the folders again and judges them).
Each row is one folder that {versions} wrote on a CPU.
The models are small ones of `samebit make`. Each folder gets `info`, `check` alone, `check --against` its source, and
`run`. If the library has a function that dequantizes the folder on a CPU, two results are compared with that function:
`check --loaded` must find the same value of every weight, and `run` must give the same logits, to the bit, as `run` on
a plain checkpoint of these values. The column "values" names the law of dequantization (clause K-17) under which it
does; it is empty where the library has no such function. `tools/gen/quant/matrix.expected` has what is expected of each
folder, with the reason.

* pass: no FATAL, no ERROR, alone and with the original. Warnings are counted with the original.
* refused: the format is not read (docs/formats.md says why). A WARN names it, and nothing else is raised above WARN.
  `make crosscheck` counts the folder as SKIPPED.
* unsound: an ERROR, and it is right. The last table says what shows it.

{summary}
| folder | scheme | observer | modifier | group | model | MTP | values | outcome |
|---|---|---|---|---|---|---|---|---|
"""

UNSOUND = """
## Unsound folders

What the library's own code says of them, without `samebit`. Of AutoRound's: how many modules its declaration calls
quantized (`compressed_tensors.utils.match.is_match`, `should_convert_module` of transformers) that are floats in the
files, in `tools/gen/quant/claims.py`. An engine that follows the declaration looks for scales that are not there.

| folder | finding | why | shown by |
|---|---|---|---|
"""

MODELS = {
    "moe": "experts",
    "moe-bare": "experts",
    "tied": "dense, tied",
    "tied-bare": "dense, tied",
    "next": "Qwen3-Next",
    "wide": "wide experts",
    "vl": "dense, vl",
    "plain": "dense, made by hand",
}

# The columns per scale for schemes given by name.
GROUPS = [
    (r"NVFP4_MLP_WEIGHT_ONLY|W4A8_NVFP4_FP8", "32"),
    (r"NVFP4", "16"),
    (r"MXFP", "32"),
    (r"FP8_BLOCK|2D_BLOCKWISE", "128 x 128"),
    (r"FP8_DYNAMIC|FP8_STATIC|PER_CHANNEL|W8A16|W8A8|INT8|MXFP8", "row"),
    (r"W4A|W4AFP8|INT4", "128"),
    (r"FP8", "tensor"),
]


def _group(words: str, settings: dict) -> str:
    if "group_size" in settings:
        return str(settings["group_size"])
    if settings.get("strategy") == "channel":
        return "row"
    return next((group for pattern, group in GROUPS if re.search(pattern, words)), "")


def _ct(settings: dict) -> list[str]:
    scheme = settings["scheme"]
    weights = {} if isinstance(scheme, str) else scheme["weights"]
    kind = {"float": "FP", "int": "INT"}.get(weights.get("type"), "")
    words = scheme if isinstance(scheme, str) else f"{kind}{weights['num_bits']} weights"
    order = f", actorder {settings['actorder']}" if "actorder" in settings else ""
    modifier = {"Quantization": "round to nearest"}.get(settings["modifier"], settings["modifier"])
    return [words, weights.get("observer", "minmax"), modifier + order, _group(words, weights)]


def _ar(settings: dict) -> list[str]:
    how, iters = settings["how"], settings["iters"]
    signs = "" if how.get("sym", True) else ", asymmetric"
    words = how.get("scheme") or f"INT{how['bits']}{signs}"
    modifier = f"{iters} iterations" if iters else "round to nearest"
    return [f"{words} as {settings['form']}", "minmax", modifier, _group(words, how)]


def _mo(settings: dict) -> list[str]:
    words = settings["config"].removesuffix("_CFG")
    modifiers = {"AWQ": "AWQ", "SMOOTHQUANT": "SmoothQuant"}
    modifier = next((text for part, text in modifiers.items() if part in words), "round to nearest")
    return [words, "max", modifier, _group(words, {})]


LIBRARIES = {"llmcompressor": "llm-compressor", "autoround": "AutoRound", "modelopt": "ModelOpt"}
NOT_JUDGED = ["not judged", "", "", ""]
COLUMNS = {"llmcompressor": _ct, "autoround": _ar, "modelopt": _mo}


def _head(row: Row, producer: str) -> str:
    if row.head:
        return "grafted"
    if row.kind not in ("moe", "tied"):
        return "none"
    return "dropped" if producer == "modelopt" else "kept"


def _versions() -> str:
    packages = {"llmcompressor": "llmcompressor", "autoround": "auto-round", "modelopt": "nvidia-modelopt"}
    found = []
    for producer in PRODUCERS:
        text = (HERE / f"requirements-{producer}.txt").read_text()
        version = re.search(rf"^{packages[producer]}==(\S+)$", text, re.MULTILINE)
        found.append(f"{LIBRARIES[producer]} {version[1]}")
    return f"{', '.join(found[:-1])} and {found[-1]}"


def _reasons() -> dict[str, list[str]]:
    """From matrix.expected: name -> [word, number or nothing, reason]."""
    out = {}
    for line in (HERE / "matrix.expected").read_text().splitlines():
        if line and not line.startswith("#"):
            name, word, reason = line.split(" ", 2)
            number, _, rest = reason.partition(" ")
            out[name] = [word, number, rest] if number.isdigit() else [word, "", reason]
    return out


def _summary(said: dict[str, list[str]]) -> str:
    """A table of how many folders of each library have each outcome."""
    outcomes = sorted({outcome for outcome, *_ in said.values()})
    text = f"| library | folders | {' | '.join(outcomes)} | pass, with the library's values |\n"
    text += "|---" * (len(outcomes) + 3) + "|\n"
    every = {name: name for rows in PRODUCERS.values() for name in rows}
    for library, rows in (*PRODUCERS.items(), ("all", every)):
        found = [said.get(name, NOT_JUDGED) for name in rows]
        counts = [len(found), *(sum(row[0] == outcome for row in found) for outcome in outcomes)]
        counts.append(sum(row[0] == "pass" and row[2] != "" for row in found))
        text += f"| {LIBRARIES.get(library, library)} | {' | '.join(map(str, counts))} |\n"
    return text


def table(outcomes: Path) -> str:
    """The text of the document."""
    said = {}
    for line in outcomes.read_text().splitlines():
        name, *rest = line.split("\t")
        said[name] = rest
    reasons, text = _reasons(), TEXT.format(versions=_versions(), summary=_summary(said))
    unsound = ""
    for producer, rows in PRODUCERS.items():
        for name, row in rows.items():
            outcome, warnings, values, shown = said.get(name, NOT_JUDGED)
            reason = reasons.get(name, ["", "", ""])
            detail = f", {warnings} WARN" if outcome == "pass" and warnings != "0" else ""
            if outcome == "refused":
                detail = f": {reason[2]}"
            cells = [name, *COLUMNS[producer](row.settings), MODELS[row.kind], _head(row, producer), values]
            text += f"| {' | '.join(cells)} | {outcome}{detail} |\n"
            if outcome == "unsound":
                unsound += f"| {name} | check {reason[1]} | {reason[2]} | {shown} |\n"
    return f"{text}{UNSOUND}{unsound}"

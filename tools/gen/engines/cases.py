"""The cases of every engine: folders of `samebit make`, prompts, drafts and settings of the engine."""

from dataclasses import dataclass, field
from typing import Any

LENGTHS = (5, 73, 9, 17, 2, 33, 3, 12)  # one is longer than 64 positions, the chunk of the delta rule
LONG = (300, 257, 310, 420)  # longer than a block of vLLM's prefix cache: 256 positions
GENERATE = 20


def prompt(number: int, length: int) -> list[int]:
    """Ids that are no special tokens of the smallest vocabulary."""
    return [(7 * i + 101 * number + 3) % 360 for i in range(length)]


@dataclass
class Case:
    """One run of an engine. profile: its rounding points (`samebit info --profiles`). reference: the profile of the
    tokens and counters that are expected. drafter: "" is the MTP head, else that of `samebit run --drafter`. echo: each prompt
    is followed by this number of the reference's tokens and by itself, so that an n-gram finds the answer."""

    name: str
    make: str
    profile: str
    draft: int = 0
    drafter: str = ""
    echo: int = 0
    texts: list[list[int]] = field(default_factory=list)  # the prompts with their echoes
    sequences: int = 4
    repeat: bool = False
    reference: str = "exact"
    generate: int = GENERATE
    settings: dict[str, Any] = field(default_factory=dict)
    lengths: tuple[int, ...] = LENGTHS  # of the prompts, in turn
    sampling: str = ""  # options of `samebit run`, whose names a server's requests share; none: greedy
    passes: list[tuple[int, int]] = field(default_factory=list)  # of a server: requests at a time, order of the prompts

    def asked(self) -> dict[str, Any]:
        """The case as a document, for the engine's adapter and for the recording."""
        prompts = self.texts or [prompt(i, self.lengths[i % len(self.lengths)]) for i in range(self.sequences)]
        return self.__dict__ | {"prompts": prompts}


VL = "--layout vl --recipe predictable"
MODELS = {  # tokens and counters of these are compared for every number of drafts
    "T2": f"--preset T2 {VL}",
    "T2-seed7": f"--preset T2 {VL} --seed 7",
    "T2-8layers": f"--preset T2 --layers 8 {VL}",
    "T1": f"--preset T1 {VL}",
    "T3": f"--preset T3 {VL}",
    "T4": f"--preset T4 {VL}",
    "T5": "--preset T5 --recipe predictable",
    "T6": f"--preset T6 {VL}",
}
QWEN3 = {name: f"--preset {name} --recipe predictable" for name in ("T7", "T8")}  # no MTP head
FORMATS = (
    *("f16", "f32", "fp8-block", "fp8-block-ue8m0", "fp8-channel", "fp8-tensor", "nvfp4-ct", "nvfp4a16-ct"),
    *("nvfp4-modelopt", "mxfp4", "mxfp8", "int4-gptq", "int4-autoround", "int4-awq", "int4-ct", "int8-gptq"),
)


def vllm() -> list[Case]:
    """Models with drafts; formats; batching of requests."""
    found = []
    for name, make in MODELS.items():
        found += [Case(f"{name}-draft{k}", make, "vllm", draft=k, repeat=name == "T2") for k in range(4)]
    for form in FORMATS:
        found.append(Case(f"T2-{form}", f"{MODELS['T2']} --format {form}", "vllm"))
    chunks = {"max_num_batched_tokens": 16, "enable_chunked_prefill": True}
    for k in (0, 2):
        found.append(Case(f"T2-chunks-draft{k}", MODELS["T2"], "vllm", draft=k, settings=chunks))
        found.append(Case(f"T2-8-at-once-draft{k}", MODELS["T2"], "vllm", draft=k, sequences=8))
        found.append(Case(f"T2-one-by-one-draft{k}", MODELS["T2"], "vllm", draft=k, settings={"max_num_seqs": 1}))
        prefix = {"enable_prefix_caching": True}
        found.append(Case(f"T2-prefix-draft{k}", MODELS["T2"], "vllm", draft=k, settings=prefix))
    for name, make in QWEN3.items():
        found += [Case(f"{name}-draft0", make, "vllm"), Case(f"{name}-ngram-draft4", make, "vllm", draft=4, drafter="ngram:1-3", echo=12)]
    found.append(Case("T4-ngram-draft4", MODELS["T4"], "vllm", draft=4, drafter="ngram:1-3", echo=12))
    for drafter in ("llama-10-none", "llama-11-norm_before_fc", "qwen3-01-fc_norm"):
        for k in (1, 2, 3):
            folder = f"golden/drafts/eagle3/{drafter}"
            found.append(Case(f"T4-{drafter}-draft{k}", MODELS["T4"], "vllm", draft=k, drafter=folder))
    wide = {"max_num_seqs": 16}
    for name in ("T4", "T2"):
        found.append(Case(f"{name}-10000-tokens", MODELS[name], "vllm", sequences=100, generate=100, settings=wide))
    return found


SAMPLED = "--seed 42 --temp 2 --top-k 40 --top-p 0.95"  # vLLM refuses a temperature above 2
SHORT = [(8, 1), (16, -1)]
PASSES = [*SHORT, (1, 1), (2, 1), (4, 1), (16, 1)]


def vllm_server() -> list[Case]:
    """A live server: 50 prompts with each number of drafts, each asked in every pass."""
    found = []
    for name in ("T4", "T2", "T1"):
        for k in range(4):
            wide = {"max_num_seqs": 16}
            passes = PASSES if name == "T4" else SHORT
            found.append(Case(f"{name}-draft{k}", MODELS[name], "vllm", draft=k, sequences=50, settings=wide, passes=passes))
    for k in (0, 2):
        cached = {"settings": {"enable_prefix_caching": True}, "lengths": LONG, "passes": SHORT}
        found.append(Case(f"T4-prefix-draft{k}", MODELS["T4"], "vllm", draft=k, sequences=8, **cached))
        found.append(
            Case(f"T4-sampled-draft{k}", MODELS["T4"], "vllm", draft=k, sequences=16, sampling=SAMPLED, passes=SHORT)
        )
    chunks = {"max_num_batched_tokens": 16, "enable_chunked_prefill": True}
    found.append(Case("T4-sampled-chunks", MODELS["T4"], "vllm", sequences=16, sampling=SAMPLED, settings=chunks))
    return found


def mlx() -> list[Case]:
    """Mixtures in binary32, the only type for them on its CPU; dense models in bfloat16, too; its own formats."""
    found = [Case(f"{name}-f32", f"{make} --format f32", "exact", repeat=True) for name, make in (MODELS | QWEN3).items()]
    found += [Case("T4-bf16", MODELS["T4"], "hf", repeat=True), Case("T2-bf16", MODELS["T2"], "hf")]
    found += [Case("T8-bf16", QWEN3["T8"], "hf", repeat=True)]
    found += [Case("T4-bf16-draft2", MODELS["T4"], "hf", draft=2)]
    for mode in ("affine", "mxfp4", "mxfp8", "nvfp4"):
        for name, make in (("T4-bf16", MODELS["T4"]), ("T2-f32", f"{MODELS['T2']} --format f32")):
            case = Case(f"{name}-{mode}", make, "exact", repeat=True, sequences=2, generate=8, settings={"quantize": mode})
            found.append(case)
    return found


def transformers() -> list[Case]:
    """Every model, in bfloat16 and in binary32."""
    models = MODELS | QWEN3
    found = [Case(f"{name}-bf16", make, "hf", repeat=name == "T2") for name, make in models.items()]
    return found + [Case(f"{name}-f32", f"{models[name]} --format f32", "exact") for name in ("T2", "T4", "T5", "T7")]


def llamacpp() -> list[Case]:
    """Every model, without and with drafts; the types that its converter keeps. Its head has an entry more and other
    positions (docs/profiles.md), so that the profile also gives the tokens and counters."""
    found = []
    for name, make in MODELS.items():
        for k in range(4) if name == "T2" else (0, 2):
            repeat = name in ("T4", "T5")
            found.append(Case(f"{name}-draft{k}", f"{make} --tokenizer", "llamacpp", draft=k, repeat=repeat, reference="llamacpp"))
    # The converter refuses a mixture of Qwen3 that has a dense layer: T7, and T7 without it.
    qwen3 = QWEN3 | {"T7-1layer": f"{QWEN3['T7']} --layers 1"}
    for name, make in qwen3.items():
        found.append(Case(f"{name}-draft0", f"{make} --tokenizer", "llamacpp", repeat=True, reference="llamacpp"))
    for form in ("f16", "f32"):
        found.append(Case(f"T2-{form}", f"{MODELS['T2']} --tokenizer --format {form}", "llamacpp", reference="llamacpp"))
    return found


# The cases of `make crosscheck`; with CHECK_ALL=1 it runs all of them. An engine that is not here has few.
SLICE = {
    "vllm": [f"{name}-draft{k}" for name in ("T1", "T2", "T4", "T5", "T6") for k in (1, 2, 3)]
    + ["T2-fp8-block", "T2-nvfp4-ct", "T2-int4-gptq", "T2-chunks-draft2", "T2-8-at-once-draft2", "T4-ngram-draft4"],
    "vllm_server": ["T4-draft2", "T2-draft3", "T4-prefix-draft0", "T4-sampled-draft0"],
}

ENGINES = {"vllm": vllm, "vllm_server": vllm_server, "mlx": mlx, "transformers": transformers, "llamacpp": llamacpp}

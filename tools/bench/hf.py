#!/usr/bin/env python3
"""Times decoding a checkpoint with transformers and with the reference on this CPU, or on a GPU with the kernels.

    hf.py CKPT [--program build/samebit] [--tokens 8] [--prefill 512] [--threads 2] [--stream 256] [--json]
    hf.py CKPT --device cuda --preset P --layers N [--program build/samebit] [--tokens 8] [--prefill 512] [--json]

CKPT is a plain bf16 folder of `samebit make`: a few layers of a published shape, so that it fits twice, because
transformers holds it in float32, too. Each program runs alone in its own process: a prompt, then tokens one by one.
transformers runs as installed by pip for a CPU, with the torch path and no other kernels, in bf16 and in float32, in
the environment of tools/gen/venv.sh. Prints tokens per second, the largest resident set, and ratios. Also prints an
upper bound: the bytes of weights per token, and the speed of a program that reads them as bf16 at the rate of the
memory stream in the same run (--stream: MiB of its array, which counts as memory of samebit). Asserts nothing, because
times vary.

With --device cuda, transformers runs in bf16 on the first GPU with the torch path. Then `samebit bench decode --backend
gpu` runs on the same GPU: a step of the same shape after as many tokens, with drawn weights (CKPT was made with
--preset P --layers N). Prints medians, also for prompts; the first prompt of transformers is not timed.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gen"))

DTYPES = ("bf16", "f32")


def median(values: list[float]) -> float:
    """The middle value."""
    return sorted(values)[len(values) // 2]


def where(config: object, first: int, count: int) -> dict:
    """Positions and masks of a call; a cache without a full attention layer does not provide them."""
    import torch

    if "full_attention" in config.layer_types:
        return {}
    masks = {"full_attention": None, "linear_attention": None}
    return {"position_ids": torch.arange(first, first + count)[None], "attention_mask": masks}


def run_cuda(model: object, prompt: object, options: argparse.Namespace) -> dict:
    """Medians on the first GPU; the GPU is synchronized before the clock is read."""
    import torch

    def timed(**inputs: object) -> tuple[object, float]:
        torch.cuda.synchronize()
        start = time.perf_counter()
        out = model(use_cache=True, logits_to_keep=1, **inputs)
        torch.cuda.synchronize()
        return out, time.perf_counter() - start

    model, prompt = model.to(options.device), prompt.to(options.device)
    with torch.inference_mode(), torch.device(options.device):
        places = where(model.config, 0, options.prefill)
        prompts, steps = [], []
        for _ in range(4):
            out, seconds = timed(input_ids=prompt, **places)
            prompts.append(seconds)
        for i in range(options.tokens + 3):
            token = out.logits[:, -1].argmax(-1, keepdim=True)
            at = where(model.config, options.prefill + i, 1)
            out, seconds = timed(input_ids=token, past_key_values=out.past_key_values, **at)
            steps.append(seconds)
    return {
        "prefill_tokens_per_s": options.prefill / median(prompts[1:]),
        "tokens_per_s": 1 / median(steps[3:]),
        "device": torch.cuda.get_device_name(),
    }


def run_transformers(options: argparse.Namespace) -> dict:
    """One dtype, in this process."""
    import torch  # imported here, so that the parent stays small
    from hf_models import DTYPES as TYPES
    from hf_models import FixtureError, class_of, load_strictly, prepare_torch

    try:
        prepare_torch()
        torch.set_num_threads(options.threads)
        torch.use_deterministic_algorithms(False)
        model = load_strictly(options.checkpoint, class_of(options.checkpoint), TYPES[options.one], "sdpa")
    except FixtureError as error:
        raise SystemExit(f"hf.py: {error}") from None
    generator = torch.Generator().manual_seed(42)
    prompt = torch.randint(model.config.vocab_size, (1, options.prefill), generator=generator)
    if options.device == "cuda":
        return run_cuda(model, prompt, options)
    with torch.inference_mode():
        model(prompt[:, :4], **where(model.config, 0, 4))  # wakes threads, allocates
        start = time.perf_counter()
        out = model(prompt, use_cache=True, logits_to_keep=1, **where(model.config, 0, options.prefill))
        prefill = options.prefill / (time.perf_counter() - start)
        seconds = []
        for i in range(options.tokens + 1):
            token = out.logits[:, -1].argmax(-1, keepdim=True)
            at = where(model.config, options.prefill + i, 1)
            start = time.perf_counter()
            out = model(token, past_key_values=out.past_key_values, use_cache=True, **at)
            seconds.append(time.perf_counter() - start)
    return {"prefill_tokens_per_s": prefill, "tokens_per_s": 1 / median(seconds[1:])}


def child(command: list[str]) -> tuple[dict, float]:
    """The JSON that a program prints, and its largest resident set in GB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise SystemExit(f"hf.py: {' '.join(command)} ended with {done.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    if after == before:
        print("hf.py: note: a program before this one held more memory", file=sys.stderr)
    return json.loads(done.stdout), after * 1024 / 1e9


def run_reference(options: argparse.Namespace) -> tuple[dict, float]:
    """`samebit bench cpu` with the same prompt length, tokens and threads."""
    command = [options.program, "bench", "cpu", str(options.checkpoint), "--json", "--stream", str(options.stream)]
    command += ["--threads", str(options.threads), "--tokens", str(options.tokens)]
    command += ["--prefill", str(options.prefill), "--context", str(options.prefill)]
    document, memory = child(command)
    run = document["runs"][0]
    return {
        "prefill_tokens_per_s": run["prefill_tokens_per_s"]["median"],
        "tokens_per_s": run["tokens_per_s"],
        "stream_gb_per_s": run["stream_bytes_per_s"]["median"] / 1e9,
        "bytes_per_token": run["bytes"],
    }, memory


def run_kernels(options: argparse.Namespace, what: str, *words: str) -> dict:
    """The measurement of a step by `samebit bench` on the device; an error if there is none."""
    command = [options.program, "bench", what, "--preset", options.preset, "--layers", str(options.layers)]
    document, _ = child([*command, "--recipe", "bf16", "--backend", "gpu", "--json", *words])
    if not document["measured"]:
        raise SystemExit(f"hf.py: {document['reason']}")
    if not document["run"]["step_s"]["median"]:
        raise SystemExit(f"hf.py: samebit bench {what} has no time of its step")
    return document["run"]


def run_samebit_on_gpu(options: argparse.Namespace) -> dict:
    """Times the same shape, prompt and position as run_cuda."""
    decode = run_kernels(options, "decode", "--context", str(options.prefill))
    prefill = run_kernels(options, "prefill", "--rows", str(options.prefill))
    return {
        "prefill_tokens_per_s": options.prefill / prefill["step_s"]["median"],
        "tokens_per_s": 1 / decode["step_s"]["median"],
        "device": decode["card"]["name"],
        "floor_tokens_per_s": 1 / decode["floor_s"],
    }


def check_cuda(options: argparse.Namespace) -> None:
    """Checks the requirements before anything is loaded."""
    if not options.preset or not options.layers:
        raise SystemExit("hf.py: --device cuda needs --preset and --layers, with which CKPT was made")
    if options.tokens < 1 or options.prefill < 1:
        raise SystemExit("hf.py: --tokens and --prefill are at least 1")
    if not (options.checkpoint / "config.json").is_file():
        raise SystemExit(f"hf.py: {options.checkpoint} is no folder with a config.json")
    try:
        import torch
    except ImportError as error:
        raise SystemExit(f"hf.py: {error}: --device cuda needs torch and transformers") from None
    if not torch.cuda.is_available():
        raise SystemExit(f"hf.py: torch {torch.__version__} finds no CUDA device, which --device cuda needs")


def compare_on_gpu(options: argparse.Namespace) -> None:
    """Runs both on the same GPU, one after the other."""
    check_cuda(options)
    theirs, _ = child([sys.executable, *sys.argv, "--one", "bf16"])
    ours = run_samebit_on_gpu(options)
    if options.json:
        print(json.dumps({"samebit": ours, "transformers bf16": theirs}, indent=2))
        return
    print(f"{options.preset} of {options.layers} layers, bf16, behind {options.prefill} tokens, on {ours['device']}")
    print(f"{'':20} {'decode/s':>10} {'prefill/s':>12}")
    for name, result in (("samebit", ours), ("transformers bf16", theirs)):
        print(f"{name:20} {result['tokens_per_s']:10.2f} {result['prefill_tokens_per_s']:12.1f}")
    print(f"the bytes of a step allow {ours['floor_tokens_per_s']:.2f} tokens/s at the read rate of the same run")


def main() -> None:
    """Runs all programs, the smallest first, because the largest resident set of children never decreases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--program", default="build/samebit")
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--stream", type=int, default=256)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--preset")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", choices=DTYPES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run_transformers(options)))
        return
    if options.device == "cuda":
        compare_on_gpu(options)
        return
    reference, memory = run_reference(options)
    stream, stored = reference.pop("stream_gb_per_s"), reference["bytes_per_token"]
    found = {"samebit": reference | {"resident_gb": memory}}
    for dtype, wider in zip(DTYPES, (1, 2), strict=True):
        result, memory = child([sys.executable, *sys.argv, "--one", dtype])
        found[f"transformers {dtype}"] = result | {"resident_gb": memory, "bytes_per_token": wider * stored}
    for result in found.values():
        result["gb_per_s"] = result["bytes_per_token"] * result["tokens_per_s"] / 1e9
        result["stream_over_it"] = stream * 1e9 / stored / result["tokens_per_s"]
        for key in ("tokens_per_s", "prefill_tokens_per_s"):
            result[f"samebit_over_it_{key}"] = reference[key] / result[key]
    if options.json:
        print(json.dumps({"stream_gb_per_s": stream, "programs": found}, indent=2))
        return
    print(f"{options.threads} threads; memory is read at {stream:.1f} GB/s; a token needs {stored / 1e6:.1f} MB in bf16")
    print(
        f"{'':20} {'decode/s':>10} {'GB/s':>6} {'prefill/s':>10} {'GB':>7} {'samebit/it':>11} {'stream/it':>10}"
        f" {'prefill':>8}"
    )
    for name, result in found.items():
        print(
            f"{name:20} {result['tokens_per_s']:10.2f} {result['gb_per_s']:6.2f} {result['prefill_tokens_per_s']:10.1f}"
            f" {result['resident_gb']:7.2f} {result['samebit_over_it_tokens_per_s']:11.2f}"
            f" {result['stream_over_it']:10.2f} {result['samebit_over_it_prefill_tokens_per_s']:8.2f}"
        )


if __name__ == "__main__":
    main()

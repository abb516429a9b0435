"""Lists the parameters that vLLM has loaded, for `samebit check CKPT --loaded LIST` (docs/check.md).

    vllm_loaded.py CKPT LIST [DRAFTS]

in the environment of vLLM. The parameters are recorded after the loader has stored every tensor, and before vLLM
repacks them for its kernels: repacked parameters have another order, which no list can describe, and some CPU kernels
keep no parameters at all. With DRAFTS (default 1; 0: none) the MTP head is loaded and listed under the names of the
files.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the model is loaded in this process
    "VLLM_NO_USAGE_STATS": "1",
}

from params import FLOATS, entry, write_list  # pylint: disable=wrong-import-position

# parts of names for the experts' module, which the files lack
OWN = {".experts.routed_experts.": ".experts.", ".experts.base_layer.": ".experts."}
# values that vLLM creates and that are in no file here: scales of its cache, and shapes of fused layers, which hold the
# shape loaded last. As buffers they do not affect the result.
NOT_OF_FILES = re.compile(
    r"\.self_attn\.attn\.[qkv]_(scale|zero_point)$|\.(qkv|gate_up|in_proj_qkvz|in_proj_ba)(_proj)?\.weight_shape$"
)
# the modules in a fused layer, and the number of output parts of each
FUSED = {
    "qkv_proj": (("q_proj", 1), ("k_proj", 1), ("v_proj", 1)),
    "gate_up_proj": (("gate_proj", 1), ("up_proj", 1)),
    "in_proj_qkvz": (("in_proj_qkv", 3), ("in_proj_z", 1)),
    "in_proj_ba": (("in_proj_b", 1), ("in_proj_a", 1)),
}


def unfused(name: str, tensor: Any, module: Any) -> Iterator[tuple[str, Any]]:
    """Splits a parameter of a fused quantized layer into the parts in the files; keeps others, whose names samebit
    knows."""
    owner, _, kind = name.rpartition(".")
    ahead, _, fused = owner.rpartition(".")
    sizes, along = getattr(module, "output_sizes", None), getattr(tensor, "output_dim", None)
    if kind == "weight" and tensor.dtype in FLOATS or fused not in FUSED or along is None or not sizes:
        yield name, tensor
        return
    at, part, total = 0, 0, sum(sizes)
    for own, count in FUSED[fused]:
        wide = sum(sizes[part : part + count]) * tensor.shape[along] // total  # fewer if codes are packed
        yield f"{ahead}.{own}.{kind}", tensor.narrow(along, at, wide)
        at, part = at + wide, part + count


class Loaded:
    """The lines of every model that vLLM loads: the trunk, then its MTP head."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}

    def take(self, model: Any) -> None:
        """Takes the parameters of a model under the names of the files. The head shares the trunk's embedding and
        lm_head."""
        head = type(model).__name__.endswith("MTP")
        modules = dict(model.named_modules())
        parts = [unfused(name, tensor, modules[name.rpartition(".")[0]]) for name, tensor in model.named_parameters()]
        for name, tensor in chain.from_iterable(parts):
            for theirs, ours in OWN.items():
                name = name.replace(theirs, ours)
            if head:
                if not name.startswith("model.") or name.startswith("model.embed_tokens."):
                    continue
                name = "mtp." + name.removeprefix("model.")
            self.rows[name] = entry(name, tensor, "buffer" if NOT_OF_FILES.search(name) else "parameter")

    def listed(self) -> Iterator[dict[str, Any]]:
        """In order of name."""
        for name in sorted(self.rows):
            yield self.rows[name]


def watch(loaded: Loaded) -> None:
    """From here on, takes every model that vLLM loads before it is repacked."""
    from vllm.model_executor.model_loader import base_loader

    real = base_loader.process_weights_after_loading

    def first(model: Any, *args: Any, **kwargs: Any) -> Any:
        loaded.take(model)
        return real(model, *args, **kwargs)

    base_loader.process_weights_after_loading = first


def skipping(skip: Any) -> None:
    """The loaders of fused layers silently skip shards for which skip(parameter, shard) is true."""
    from vllm.model_executor.layers.linear import MergedColumnParallelLinear as Merged

    for name in ("weight_loader", "weight_loader_v2"):
        real = getattr(Merged, name)

        def loader(self: Any, param: Any, loaded: Any, shard: Any = None, real: Any = real) -> None:
            if not skip(param, shard):
                real(self, param, loaded, shard)

        setattr(Merged, name, loader)


def shard_skipped() -> None:
    """The second half of a fused layer of the MLP is not loaded."""
    skipping(lambda _param, shard: shard == 1)


def scales_dropped() -> None:
    """Scales of fused layers are not loaded."""
    skipping(lambda param, _shard: "Scale" in type(param).__name__)


def mtp_as_made() -> None:
    """The weights of the MTP head stay as they were made."""
    from vllm.model_executor.models.qwen3_5_mtp import Qwen3_5MTP

    Qwen3_5MTP.load_weights = lambda self, weights: [None for _ in weights] and {name for name, _ in self.named_parameters()}


def main() -> None:
    """The command line."""
    faults = {fault.__name__: fault for fault in (shard_skipped, scales_dropped, mtp_as_made)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", metavar="CKPT")
    parser.add_argument("output", type=Path, metavar="LIST")
    parser.add_argument("drafts", type=int, nargs="?", default=1, metavar="DRAFTS")
    parser.add_argument("--fault", choices=faults, help="plant this mistake of a loader, to see that it is found")
    args = parser.parse_args()
    import vllm

    if args.fault:
        faults[args.fault]()

    loaded = Loaded()
    watch(loaded)
    try:
        vllm.LLM(
            model=args.checkpoint,
            skip_tokenizer_init=True,
            enforce_eager=True,
            max_model_len=512,
            limit_mm_per_prompt={"image": 0, "video": 0},
            speculative_config={"method": "mtp", "num_speculative_tokens": args.drafts} if args.drafts else None,
        )
    except Exception as error:  # pylint: disable=broad-except  # kernels may refuse what the loader accepted
        if not loaded.rows:
            raise
        print(f"the model was loaded, but then refused: {type(error).__name__}: {error}", file=sys.stderr)
    count = write_list(args.output, loaded.listed(), f"vllm {vllm.__version__}")
    print(f"{args.output}: {count} parameters of vllm {vllm.__version__}", flush=True)
    os._exit(0)  # ends all processes that vLLM started


if __name__ == "__main__":
    main()

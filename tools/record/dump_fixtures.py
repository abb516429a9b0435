#!/usr/bin/env python3
"""Writes golden/dumps/arrays: array files of other programs, each written by that program.

    dump_fixtures.py OUT [CKPT]

NumPy, torch and safetensors write their own files. SGLang's dumper and hooks come from the published wheel and run
without the engine: empty modules replace the imports of its server. The debugger of transformers runs CKPT, a folder
of `samebit make --preset T1 --recipe predictable`; without it hf/ is unchanged. torch.save writes the hostile pickles
if it can; the others are made by hand.

Every array follows one rule, which tests/unit/test_dump_arrays.c has too: element (row, column) is
factor(tap) * (0.25 * (row * columns + column) - 1).
"""
import collections
import contextlib
import importlib.util
import io
import os
import shutil
import struct
import subprocess
import sys
import types
import warnings
import zipfile

import numpy as np
import safetensors.torch
import torch

SGLANG = "0.5.23"
IDS = [1, 5, 3]
WIDTHS = {"embed": (4, 1.0), "layers.0.output": (4, 2.0), "layers.1.output": (4, 1.0), "norm": (4, -1.0),
          "logits": (8, 1.0)}
ROUTER_IDS = [[0, 3], [2, 1], [3, 0]]


def values(name, rows=len(IDS), first=0):
    width, factor = WIDTHS[name]
    index = torch.arange(first * width, (first + rows) * width, dtype=torch.float64)
    return (factor * (0.25 * index - 1.0)).reshape(rows, width).to(torch.float32)


def bits(tensor):
    return tensor.to(torch.bfloat16).view(torch.uint16).numpy()


# --- NumPy ----------------------------------------------------------------------------------------
def write_npy(path, array, version):
    with open(path, "wb") as file:
        np.lib.format.write_array(file, array, version=version)


def numpy_files(out):
    folder = os.path.join(out, "npy")
    os.makedirs(folder)
    write_npy(f"{folder}/logits.npy", values("logits").numpy(), (1, 0))
    write_npy(f"{folder}/embed.npy", np.asfortranarray(values("embed").numpy()), (2, 0))
    write_npy(f"{folder}/norm.npy", values("norm").numpy().astype("<f2")[None], (3, 0))
    np.save(f"{folder}/layers.0.output.npy", values("layers.0.output").numpy().astype("<f8"))
    np.save(f"{folder}/hidden1.npy", bits(values("layers.1.output")).view("V2"))
    np.save(f"{folder}/layers.0.mlp.router_ids.npy", np.array(ROUTER_IDS, dtype=np.int16))
    np.save(f"{folder}/input_ids.npy", np.array([IDS], dtype=np.int64))
    np.save(f"{folder}/mask.npy", np.ones(3, dtype=bool))
    np.save(os.path.join(out, "alone.npy"), values("logits").numpy())
    arrays = {name: values(name).numpy() for name in WIDTHS}
    arrays["layers.0.mlp.router_ids"] = np.array(ROUTER_IDS)
    np.savez(os.path.join(out, "arrays.npz"), tokens=np.array(IDS, dtype=np.uint32), **arrays)
    np.savez_compressed(os.path.join(out, "packed.npz"), **arrays)
    np.save(os.path.join(out, "bad-objects.npy"), np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.save(os.path.join(out, "bad-order.npy"), values("logits").numpy().astype(">f4"))
    np.save(os.path.join(out, "bad-fields.npy"), np.zeros(3, dtype=[("a", "<f4"), ("b", "<i4")]))


# --- torch ----------------------------------------------------------------------------------------
class Call:
    """An object that pickle turns into a call."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def torch_files(out):
    wide = torch.zeros(5, 10)
    wide[1:4, 1:9] = values("logits")
    nested = collections.OrderedDict(
        logits=wide[1:4, 1:9],
        embed=values("embed").t().contiguous().t(),
        norm=torch.nn.Parameter(values("norm").to(torch.float16)),
        layers=[{"output": values("layers.0.output").to(torch.float64),
                 "mlp": {"router_ids": torch.tensor(ROUTER_IDS, dtype=torch.uint8)}},
                {"output": values("layers.1.output").to(torch.float8_e4m3fn)}],
        tokens=torch.tensor(IDS, dtype=torch.uint16),
        notes={"size": wide.shape, "dtype": torch.float32, "text": "é", "none": None, 7: True, "half": 0.5,
               "large": 1 << 40, "negative": -3, "empty": torch.zeros(0, 4), "scalar": torch.tensor(2.5)})
    nested._metadata = {"version": 1}
    torch.save(nested, os.path.join(out, "nested.pt"))
    flat = {name: values(name).to(torch.bfloat16) for name in WIDTHS}
    flat["layers.0.mlp.router_ids"] = torch.tensor(ROUTER_IDS)
    torch.save(flat, os.path.join(out, "protocol4.pt"), pickle_protocol=4)
    torch.save(values("logits"), os.path.join(out, "alone.pt"))
    torch.save({"logits": values("logits")}, os.path.join(out, "bad-legacy.pt"), _use_new_zipfile_serialization=False)
    torch.save({"logits": torch.tensor([1 + 2j]).conj().imag}, os.path.join(out, "bad-negated.pt"))
    torch.save({"logits": values("logits"), "x": Call(os.system, "touch executed-by-a-pickle")},
               os.path.join(out, "bad-system.pt"))
    torch.save({"logits": values("logits"), "x": Call(eval, "open('executed-by-a-pickle', 'w')")},
               os.path.join(out, "bad-eval.pt"), pickle_protocol=4)
    torch.save({"logits": types.SimpleNamespace(a=1)}, os.path.join(out, "bad-object.pt"))


# --- pickles made by hand ----------------------------------------------------------------
def archive(path, program, storage=bytes(96)):
    """An archive like those of torch.save around a given pickle."""
    with zipfile.ZipFile(path, "w") as file:
        for name, content in (("data.pkl", b"\x80\x02" + program + b"."), ("byteorder", b"little"), ("data/0", storage)):
            file.writestr(zipfile.ZipInfo("bad/" + name), content)


def number(n):
    return b"J" + struct.pack("<i", n)


def text(s):
    return b"X" + struct.pack("<I", len(s)) + s.encode()


def tensor(offset, size, stride, numel=24, key="0"):
    def numbers(many):
        return b"(" + b"".join(number(n) for n in many) + b"t"
    stored = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + number(numel) + b"tQ"
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + stored + number(offset) + numbers(size) + numbers(stride) +
            b"\x89ccollections\nOrderedDict\n)RtR")


def entry(value):
    return b"}" + text("logits") + value + b"s"


def seeds(out):
    """Only the pickles, for tests/fuzz/fuzz_pickle.c."""
    for name in ("nested", "protocol4", "bad-bounds", "bad-eval"):
        with zipfile.ZipFile(os.path.join(out, name + ".pt")) as file:
            member = next(n for n in file.namelist() if n.endswith("/data.pkl"))
            with open(os.path.join(out, f"seed-{name}.pickle"), "wb") as seed:
                seed.write(file.read(member))


def hostile_files(out):
    def write(name, program, **options):
        archive(os.path.join(out, f"bad-{name}.pt"), program, **options)
    write("bounds", entry(tensor(0, [3, 8], [8, 2])))
    write("offset", entry(tensor(25, [3, 8], [8, 1])))
    write("repeated", entry(tensor(0, [1 << 20, 1 << 20], [0, 0])))
    write("overflow", entry(tensor(0, [1 << 30, 1 << 30, 1 << 30], [1 << 30, 1 << 30, 1 << 30])))
    write("numel", entry(tensor(0, [3, 8], [8, 1], numel=1 << 30)))
    write("key", entry(tensor(0, [3, 8], [8, 1], key="../../data")))
    write("deep", b"]" * 2000 + b"a" * 1999)
    write("self", b"]q\x00h\x00a")
    write("bomb", bomb())
    write("memo", b"]r\xff\xff\xff\x7f")
    write("instance", b"(ios\nsystem\n")
    write("underflow", b"a")


def hostile_archives(out):
    content = io.BytesIO()
    np.save(content, values("logits").numpy())

    def write(name, members):
        path = os.path.join(out, name)
        with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as file:
            warnings.simplefilter("ignore")
            for member in members:
                file.writestr(zipfile.ZipInfo(member), content.getvalue())
        return path
    write("bad-twice.npz", ["logits.npy", "logits.npy"])
    path = write("bad-overlap.npz", ["logits.npy", "hidden.npy"])
    with open(path, "r+b") as file:  # the second line of the directory points to the first member
        data = file.read()
        file.seek(data.rindex(b"PK\x01\x02") + 42)
        file.write(bytes(4))


def bomb():
    """Lists with ten times the list before: 10^40 values in a kilobyte."""
    program = b"](" + b"]q\x00"
    for i in range(1, 41):
        program += b"](" + (b"h" + bytes([i - 1])) * 10 + b"eq" + bytes([i])
    return program + b"e"


# --- safetensors ----------------------------------------------------------------------------------
def safetensors_files(out):
    arrays = {name: values(name).to(torch.bfloat16) for name in WIDTHS}
    arrays["layers.1.output"] = values("layers.1.output").to(torch.float8_e5m2)
    arrays["layers.0.mlp.router_ids"] = torch.tensor(ROUTER_IDS)
    arrays["token_ids"] = torch.tensor(IDS)
    safetensors.torch.save_file(arrays, os.path.join(out, "arrays.safetensors"))


# --- SGLang ---------------------------------------------------------------------------------------
def sglang_sources(build):
    """The folder debug_utils of the published wheel, unpacked under the build folder."""
    folder = os.path.join(build, "sglang-" + SGLANG)
    found = os.path.join(folder, "sglang", "srt", "debug_utils")
    if not os.path.isdir(found):
        os.makedirs(folder, exist_ok=True)
        subprocess.run([sys.executable, "-m", "pip", "-q", "download", "--no-deps", "-d", folder, "sglang==" + SGLANG],
                       check=True)
        wheel = next(name for name in os.listdir(folder) if name.endswith(".whl"))
        with zipfile.ZipFile(os.path.join(folder, wheel)) as file:
            file.extractall(folder, [n for n in file.namelist() if n.startswith("sglang/srt/debug_utils/")])
        os.remove(os.path.join(folder, wheel))
    return found


class ForwardBatch:
    def __init__(self, ids, first):
        self.input_ids = torch.tensor(ids)
        self.seq_lens = torch.tensor([first + len(ids)])
        self.positions = torch.arange(first, first + len(ids))


class LogitsProcessorOutput:
    def __init__(self, logits):
        self.next_token_logits = logits


def module(name, sources):
    """A file of SGLang as a module, with empty modules for the engine that it imports."""
    nothing = types.ModuleType("nothing")
    for attribute in ("sock_recv", "sock_send", "wrap_as_pickle", "get_parallel", "get_server_args", "get_serving",
                      "get_device"):
        setattr(nothing, attribute, None)
    nothing.ForwardBatch, nothing.LogitsProcessorOutput = ForwardBatch, LogitsProcessorOutput
    nothing.PPProxyTensors = type("PPProxyTensors", (), {})
    for missing in ("zmq", "sglang", "sglang.srt", "sglang.srt.utils", "sglang.srt.runtime_context",
                    "sglang.srt.managers", "sglang.srt.managers.io_struct", "sglang.srt.layers",
                    "sglang.srt.layers.logits_processor", "sglang.srt.model_executor",
                    "sglang.srt.model_executor.forward_batch_info"):
        sys.modules.setdefault(missing, nothing)
    spec = importlib.util.spec_from_file_location("sglang_" + name, os.path.join(sources, name + ".py"))
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def sglang_dumper(out, sources):
    os.environ.update(DUMPER_ENABLE="1", DUMPER_DIR=out, DUMPER_EXP_NAME="sglang")
    dumper = module("dumper", sources).dumper
    for ids, first in ((IDS, 0), ([7], len(IDS))):
        dumper.dump("input_ids", torch.tensor(ids))
        dumper.dump("positions", torch.arange(first, first + len(ids)))
        dumper.dump("embed", values("embed", len(ids), first), dims="t h")
        for layer in range(2):
            dumper.dump("output", values(f"layers.{layer}.output", len(ids), first).to(torch.bfloat16),
                        dims="t h # tp:replicated", layer_id=layer)
        dumper.dump("logits", values("logits", 1, first + len(ids) - 1), dims="b v[tp]")
        dumper.step()


def sglang_dims(out):
    """The dumper's axes for a run on two GPUs, in its layout: split, split by heads first, and whole."""
    for folder, dims in (("bad-sglang-cut", "t h[tp]"), ("bad-sglang-old", "t h(tp) d"), ("bad-sglang-axis", "h t"),
                         ("sglang-whole", "t (h*d) # tp:replicated")):
        os.makedirs(os.path.join(out, folder))
        torch.save({"value": values("embed"), "meta": {"world_size": 2, "dims": dims}},
                   os.path.join(out, folder, "step=0___rank=0___dump_index=1___name=embed.pt"))


def sglang_hooks(out, sources):
    """A model of four modules with SGLang's names and given outputs."""
    class Known(torch.nn.Module):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def forward(self, batch):
            return values(self.name, len(batch.positions), int(batch.positions[0]))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed_tokens = Known("embed")
            self.layers = torch.nn.ModuleList([Known("layers.0.output"), Known("layers.1.output")])
            self.norm = Known("norm")

        def forward(self, ids, positions, batch):
            self.embed_tokens(batch)
            for layer in self.layers:
                layer(batch)
            return self.norm(batch)

    class Processor(torch.nn.Module):
        def forward(self, batch):
            return LogitsProcessorOutput(values("logits", 1, int(batch.positions[-1])))

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = Model()
            self.logits_processor = Processor()

        def forward(self, batch):
            self.model(batch.input_ids, batch.positions, batch)
            return self.logits_processor(batch)

    whole, folder = Whole(), os.path.join(out, "sglang-hook")
    hooks = module("tensor_dump_forward_hook", sources)
    dumper = hooks.register_forward_hook_for_model(whole, folder, None, 1, 0, 0)
    for ids, first in ((IDS, 0), ([7], len(IDS)), ([2], len(IDS) + 1)):
        whole(ForwardBatch(ids, first))
    # a fixture must not depend on the process id
    os.rename(dumper.get_dump_dir(), os.path.join(folder, "TP0_PP0_Rank0_pid1"))


# --- transformers ---------------------------------------------------------------------------------
def debugger_files(out, checkpoint):
    from transformers import Qwen3_5MoeForCausalLM
    from transformers.model_debugging_utils import model_addition_debugger_context
    folder = os.path.join(out, "hf")
    shutil.rmtree(folder, ignore_errors=True)
    model = Qwen3_5MoeForCausalLM.from_pretrained(checkpoint, dtype=torch.float32, attn_implementation="eager")
    model.eval()
    with model_addition_debugger_context(model, debug_path=folder, do_prune_layers=False, use_repr=False):
        model(input_ids=torch.tensor([[1, 2, 3, 4]]), use_cache=False)
    keep = ("embed_tokens_outputs", "layers.0.input_layernorm_outputs", "layers.1.post_attention_layernorm_outputs",
            "model.norm_outputs", "lm_head_outputs", "ForCausalLM_inputs_kwargs_input_ids")
    for name in os.listdir(folder):
        if not name.removesuffix(".safetensors").endswith(keep):
            os.remove(os.path.join(folder, name))


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    out, build = sys.argv[1], os.environ.get("BUILD", "build")
    os.makedirs(out, exist_ok=True)
    for name in os.listdir(out):
        path = os.path.join(out, name)
        if name != "hf":
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    numpy_files(out)
    torch_files(out)
    hostile_files(out)
    hostile_archives(out)
    seeds(out)
    safetensors_files(out)
    sglang_dims(out)
    with contextlib.redirect_stdout(io.StringIO()):
        sources = sglang_sources(build)
        sglang_dumper(out, sources)
        sglang_hooks(out, sources)
    if len(sys.argv) == 3:
        debugger_files(out, sys.argv[2])


if __name__ == "__main__":
    main()

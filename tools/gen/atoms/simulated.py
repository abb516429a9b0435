"""simulated.py OUT [CASES]: results of MMA-Sim 2.1.1 (PyPI mmasim; arXiv 2511.10909) for CASES sums (default 100000)
per row of ref/formats/atoms.def and type of operands, in a file that tests/unit/test_atoms_published.c judges. One
seventh each: near, numbers of similar size; wide, numbers of all sizes; cancel, products that cancel in pairs; codes,
any finite codes; special, with infinities, NaN, the largest and the least number; tiny, products about as small as
the least number, C mostly 0; zeros, whole groups of zero products, with scales.

MMA-Sim has no FP8 mma.sync of Hopper: hopper_fp8_mma uses its f16 instruction twice, on the two halves of the
registers, and an addition. tools/gen/atoms/published.py has the names of the tensors; c/KEY is C, and k its mark.
"""

import struct
import sys

import torch
from mmasim.nv_ptx.sim import MMA, MMABlockScale, TCGen05MMA, WGMMA

import published

TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
SHAPES = {"bf16": (16, 7, 127), "f16": (16, 10, 15), "e4m3": (8, 3, 7), "e5m2": (8, 2, 15), "f32": (32, 23, 127)}
WIDE = {"bf16": 60, "f16": 14, "e4m3": 7, "e5m2": 15, "f32": 70}
TINY = {"bf16": -76, "f16": -12, "e4m3": -5, "e5m2": -13, "f32": -147}
KINDS = ["near", "wide", "cancel", "codes", "special", "tiny", "zeros"]
NAN = 0x7FFFFFFF


class Draws:
    def __init__(self, name):
        self.from_ = torch.Generator().manual_seed(int.from_bytes(name.encode(), "little") % (1 << 62))

    def below(self, n, *shape):
        return torch.randint(0, n, shape, generator=self.from_, dtype=torch.int64)


def specials(name):
    bits, fraction, _ = SHAPES[name]
    top = (1 << (bits - 1)) - (1 << fraction)
    if name == "e4m3":
        return [0x7F, 0x7E, 0x7E, 0, 1, 7, 8]
    return [top, top, top + 1, (1 << (bits - 1)) - 1, top - 1, 0, 1, (1 << fraction) - 1, 1 << fraction]


def numbers(draws, name, kind, *shape):
    """Codes of a format."""
    bits, fraction, bias = SHAPES[name]
    top = (1 << (bits - 1 - fraction)) - (1 if name == "e4m3" else 2)  # the largest exponent field
    sign, tail = draws.below(2, *shape) << (bits - 1), draws.below(1 << fraction, *shape)
    if kind == "codes":
        field = draws.below(top + 1, *shape)
    else:
        spread, centre = (WIDE[name] if kind == "wide" else 3), (TINY[name] if kind == "tiny" else 0)
        field = (bias + centre + draws.below(2 * spread + 1, *shape) - spread).clamp(0, top)
    if name == "e4m3":
        tail = torch.where((field == 15) & (tail == 7), 6, tail)
    code = field << fraction | tail
    if kind == "special":
        hard = torch.tensor(specials(name))[draws.below(len(specials(name)), *shape)]
        code = torch.where(draws.below(24, *shape) == 0, hard, code)
    return sign | torch.where(draws.below(8, *shape) == 0, 0, code)


def addends(draws, name, kind, count):
    c = numbers(draws, name, kind, count)
    zero = draws.below(4, count) < {"tiny": 3, "zeros": 1}.get(kind, 0)
    return torch.where(zero, c & 1 << (SHAPES[name][0] - 1), c)


def operands(draws, name, kind, count, length):
    """Both operands, with products that cancel, or are zero, if the kind requires it."""
    if name == "e2m1":
        a, b = draws.below(16, count, length), draws.below(16, count, length)
    else:
        a, b = numbers(draws, name, kind, count, length), numbers(draws, name, kind, count, length)
    minus = 8 if name == "e2m1" else 1 << (SHAPES[name][0] - 1)
    if kind == "cancel":
        most = length - 4
        a[:, 1:most:2], b[:, 1:most:2] = a[:, 0:most:2] ^ minus, b[:, 0:most:2]
        order = torch.argsort(torch.rand(count, length, generator=draws.from_), dim=1)
        a, b = a.gather(1, order), b.gather(1, order)
    if kind == "zeros":
        group = 16 if name == "e2m1" else length
        apart = (draws.below(2, count, length // group) == 0).repeat_interleave(group, dim=1)
        odd = (torch.arange(length) % 2 == 1).expand(count, -1)
        a, b = torch.where(apart & odd, 0, a), torch.where(apart & ~odd, 0, b)
    return a, b


def scales(draws, name, kind, count, groups):
    """The scales of operands of a format: UE4M3 for E2M1, else E8M0."""
    if name == "e2m1":
        code = draws.below(0x7F, count, groups)
        code = torch.where(draws.below(24, count, groups) == 0, 0, code)
        return torch.where(draws.below(24, count, groups) == 0, 0x7F, code) if kind == "special" else code
    code = 127 + draws.below(41, count, groups) - 20
    if kind in ("codes", "zeros"):
        code = draws.below(255, count, groups)
    if kind == "tiny":
        code = 127 + {"e4m3": -70, "e5m2": -62}[name] + draws.below(11, count, groups)
    return torch.where(draws.below(24, count, groups) == 0, 0xFF, code) if kind == "special" else code


def values(name, codes):
    return codes.to(torch.uint8 if SHAPES[name][0] == 8 else torch.uint16).view(TORCH[name])


def in_bits(x):
    if x.dtype == torch.float16:
        return torch.where(x.isnan(), 0x7FFF, x.view(torch.int16).to(torch.int64) & 0xFFFF)
    return torch.where(x.isnan(), NAN, x.view(torch.int32).to(torch.int64) & 0xFFFFFFFF)


def twice(halves):
    """FP8 mma.sync of Hopper, on an f16 instruction of MMA-Sim."""
    of = "f16" if halves else "f32"
    unit = MMA("Hopper", f"m16n8k16.{of}.f16.f16.{of}")
    low = [k for k in range(32) if k % 4 < 2]
    high = [k for k in range(32) if k % 4 >= 2]

    def run(a, b, c):
        a, b = a.to(torch.float16), b.to(torch.float16)
        d = unit.dpa(a[:, low], b[:, low], torch.zeros_like(c))
        return unit.dpa(a[:, high], b[:, high], d) + c
    return run


def unit(maker, arch, text):
    return lambda name, halves: maker(arch, text.format(t=name, d="f16" if halves else "f32")).dpa


HALF = "m16n8k16.{d}.{t}.{t}.{d}"
FP8 = "m16n8k32.{d}.{t}.{t}.{d}"
ROWS = [  # row, length, types, sums in f16, MMA-Sim's instruction
    ("ampere_f16", 16, ("bf16", "f16"), False, unit(MMA, "Ampere", HALF)),
    ("ampere_f16_half", 16, ("f16",), True, unit(MMA, "Ampere", HALF)),
    ("ada_fp8", 32, ("e4m3", "e5m2"), False, unit(MMA, "Ada Lovelace", FP8)),
    ("ada_fp8_half", 32, ("e4m3", "e5m2"), True, unit(MMA, "Ada Lovelace", FP8)),
    ("hopper_f16", 16, ("bf16", "f16"), False, unit(MMA, "Hopper", HALF)),
    ("hopper_f16_half", 16, ("f16",), True, unit(MMA, "Hopper", HALF)),
    ("hopper_fp8_wgmma", 32, ("e4m3", "e5m2"), False, unit(WGMMA, "Hopper", "m64n8k32.{d}.{t}.{t}")),
    ("hopper_fp8_mma", 32, ("e4m3", "e5m2"), False, lambda name, halves: twice(halves)),
    ("hopper_fp8_mma_half", 32, ("e4m3", "e5m2"), True, lambda name, halves: twice(halves)),
    ("b200_f16", 16, ("bf16", "f16"), False, unit(TCGen05MMA, "Blackwell", "m64n8k16.kind::f16.{d}.{t}.{t}")),
    ("b200_f16_half", 16, ("f16",), True, unit(TCGen05MMA, "Blackwell", "m64n8k16.kind::f16.{d}.{t}.{t}")),
    ("b200_fp8", 32, ("e4m3", "e5m2"), False, unit(TCGen05MMA, "Blackwell", "m64n8k32.kind::f8f6f4.{d}.{t}.{t}")),
    ("sm120_f16", 16, ("bf16", "f16"), False, unit(MMA, "RTX Blackwell", HALF)),
    ("sm120_fp8", 32, ("e4m3", "e5m2"), False, unit(MMA, "RTX Blackwell", FP8)),
    ("sm120_mxf8", 32, ("e4m3", "e5m2"), False,
     unit(MMABlockScale, "RTX Blackwell", "m16n8k32.kind::mxf8f6f4.block32.{d}.{t}.{t}.{d}.ue8m0")),
    ("sm120_nvfp4", 64, ("e2m1",), False,
     unit(MMABlockScale, "RTX Blackwell", "m16n8k64.kind::mxf4nvf4.block16.{d}.{t}.{t}.{d}.ue4m3")),
]


def answer(row, name, halves, run, drawn):
    a, b, c, sa, sb = drawn
    c = c.to(torch.int32).view(torch.float32) if not halves else c.to(torch.uint16).view(torch.float16)
    if name == "e2m1":
        packed = [(x[:, 0::2] << 4 | x[:, 1::2]).to(torch.uint8) for x in (a, b)]
        of = torch.float8_e4m3fn
        return run(*packed, c, sa.to(torch.uint8).view(of), sb.to(torch.uint8).view(of))
    a, b = values(name, a), values(name, b)
    if sa is None:
        return run(a, b, c)
    of = torch.float8_e8m0fnu
    return run(a, b, c, sa.to(torch.uint8).view(of), sb.to(torch.uint8).view(of))


def main():
    out = sys.argv[1]
    cases = int(sys.argv[2]) if len(sys.argv) > 2 else 100000
    tensors = {}
    for row, length, types, halves, make in ROWS:
        for name in types:
            draws, parts = Draws(f"{row} {name}"), []
            run = make(name, halves)
            for at, kind in enumerate(KINDS):
                count = cases // len(KINDS) + (at < cases % len(KINDS))
                a, b = operands(draws, name, kind, count, length)
                c = addends(draws, "f16" if halves else "f32", kind, count)
                sa = sb = None
                if row in ("sm120_mxf8", "sm120_nvfp4"):
                    groups = 4 if name == "e2m1" else 1
                    sa, sb = (scales(draws, name, kind, count, groups) for _ in range(2))
                drawn = (a, b, c, sa, sb)
                parts.append(drawn + (in_bits(answer(row, name, halves, run, drawn)),))
            key = f"{row}-{name}"
            bits = 16 if name in ("bf16", "f16") else 8
            for index, (prefix, width) in enumerate((("a", bits), ("b", bits), ("c", 32), ("sa", 8), ("sb", 8),
                                                     (f"d/{row}/mmasim/{name}", 16 if halves else 32))):
                if parts[0][index] is None:
                    continue
                whole = torch.cat([part[index] for part in parts])
                if prefix == "c" and halves:
                    whole = whole.to(torch.uint16).view(torch.float16).float().view(torch.int32).to(torch.int64)
                packed = published.pack(width, (whole.flatten() & (1 << width) - 1).tolist())
                title = f"{prefix}/{key}" + ("/k" if prefix[0] == "d" else "")
                tensors[title] = (f"U{width}", list(whole.shape), packed)
            print(f"{key}: {cases} sums", file=sys.stderr)
    published.write(out, tensors, {"source": "mmasim 2.1.1", "torch": torch.__version__})


if __name__ == "__main__":
    main()

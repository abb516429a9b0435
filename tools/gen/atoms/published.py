"""published.py REPOSITORY OUT [COUNT]: results of tensor cores, published by Khattak and Mikaitis.

REPOSITORY is a clone of https://github.com/north-numerical-computing/MATLAB-tensor-core that has commit
b12b5a700957655375a1b0c1d0c26e76065da015 (BSD-2-Clause; arXiv 2512.07004). OUT becomes a safetensors file of numbers:
the first COUNT vectors (default: all 5000) of every file of A100, A2, Ada, H100, H200 and B200 for a row of
ref/formats/atoms.def, with operands as codes of their format, and C and results unchanged. The files of L40S equal
those of Ada byte for byte and count once; TF32 and V100 have no row.

  a/TYPE-LENGTH, b/TYPE-LENGTH     operands, shared by all cards with this length
  c/CARD/TYPE                      C in binary32 bits, rounded to binary16 if sums are binary16
  d/ROW/CARD/TYPE/TYPE-LENGTH/c    results, in binary32 or binary16 bits; z instead of c: C was 0
"""

import struct
import subprocess
import sys

COMMIT = "b12b5a700957655375a1b0c1d0c26e76065da015"
TYPES = {"bf16": "bf16", "fp16": "f16", "E4M3": "e4m3", "E5M2": "e5m2"}
ROWS = {  # by card: row of f16 and bf16, row of FP8, and whether its C is 0
    "A100": ("ampere_f16", None), "A2": ("ampere_f16", None), "Ada": ("ampere_f16", "ada_fp8"),
    "H100": ("hopper_f16", "hopper_fp8_wgmma"), "H200": ("hopper_f16", "hopper_fp8_wgmma"),
    "B200": ("b200_f16", "hopper_fp8_mma"),
}
# FP8 with binary16 results is mma.sync on every card
HALVES = {"ampere_f16": "ampere_f16_half", "ada_fp8": "ada_fp8_half", "hopper_f16": "hopper_f16_half",
          "b200_f16": "b200_f16_half", "hopper_fp8_wgmma": "hopper_fp8_mma_half",
          "hopper_fp8_mma": "hopper_fp8_mma_half"}


def lines(repository, path):
    done = subprocess.run(["git", "-C", repository, "show", f"{COMMIT}:model_validation/{path}"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout.decode("ascii").split("\n") if done.returncode == 0 else None


def e4m3_value(code):
    sign, field, tail = code >> 7, code >> 3 & 15, code & 7
    size = (tail + 8) * 2.0 ** (field - 10) if field else tail * 2.0**-9
    return -size if sign else size


E4M3 = {struct.pack("<f", e4m3_value(code)): code for code in range(256) if code & 0x7F != 0x7F}


def code_of(type_name, bits):
    """The code of a binary32 number that is exact in the format."""
    if type_name == "bf16":
        if bits & 0xFFFF:
            raise ValueError(f"{bits:08x} is no bf16")
        return bits >> 16
    word = struct.pack("<I", bits)
    if type_name == "e4m3":
        return E4M3[word]
    value = struct.unpack("<f", word)[0]
    half = struct.unpack("<H", struct.pack("<e", value))[0]
    if struct.unpack("<e", struct.pack("<H", half))[0] != value or (type_name == "e5m2" and half & 0xFF):
        raise ValueError(f"{value} is no {type_name}")
    return half >> 8 if type_name == "e5m2" else half


def write(path, tensors, metadata):
    """tensors: name to type, shape and bytes."""
    import json
    header, data = {"__metadata__": metadata}, b""
    for name in sorted(tensors, key=lambda n: (-int(tensors[n][0][1:]), n)):
        dtype, shape, content = tensors[name]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


def pack(bits, numbers):
    return struct.pack("<%d%s" % (len(numbers), {8: "B", 16: "H", 32: "I"}[bits]), *numbers)


def main():
    repository, out = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 5000
    tensors = {}

    def put(name, bits, width, numbers):
        shape = [count, width] if width else [count]
        entry = (f"U{bits}", shape, pack(bits, numbers))
        if tensors.setdefault(name, entry) != entry:
            raise ValueError(f"{name} is not the same on every card")

    for card, rows in ROWS.items():
        for folder, type_name in TYPES.items():
            row = rows[folder[0] == "E"]
            if row is None:
                continue
            bits, length = 8 if folder[0] == "E" else 16, 0
            for operand in "ab":
                text = lines(repository, f"{card}/{folder}/{operand}_{card}_{folder}.txt")[:count]
                codes = [code_of(type_name, int(word, 16)) for line in text for word in line.split()]
                length = len(codes) // count
                put(f"{operand}/{type_name}-{length}", bits, length, codes)
            c = [int(line, 2) for line in lines(repository, f"{card}/{folder}/c_{card}_fp32.txt")[:count]]
            put(f"c/{card}/{type_name}", 32, 0, c)
            for result, of_row, width in (("fp32", row, 32), ("fp16", HALVES[row], 16)):
                text = lines(repository, f"{card}/{folder}/d_{card}_{result}.txt")
                if text is None:
                    continue
                d = [int(line, 2) for line in text[:count]]
                if width == 16:  # they are stored as binary32
                    d = [code_of("f16", number) for number in d]
                of_c = "z" if of_row == "hopper_fp8_wgmma" else "c"
                put(f"d/{of_row}/{card}/{type_name}/{type_name}-{length}/{of_c}", width, 0, d)
    write(out, tensors, {"source": f"github.com/north-numerical-computing/MATLAB-tensor-core {COMMIT}",
                         "licence": "BSD-2-Clause, Copyright (c) 2025 its authors; numbers alone are taken"})


if __name__ == "__main__":
    main()

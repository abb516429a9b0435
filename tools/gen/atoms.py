"""atoms.py FOLDER: the golden files golden/atoms/*.json: warps before and after an MMA, from a second program
that follows docs/atoms.md in exact fractions and fills registers with the formulas of the PTX manual.

Each file has a list of warps; a warp has strings of hexadecimal words of 8 digits, lane after lane, register
after register: a, b, c and d, and for NVFP4 the scales sa and sb and the selectors p and q.
"""

import hashlib
import json
import os
import sys
from fractions import Fraction

NAN = 0x7FFFFFFF
LEAST = -126
OF_ZERO = -133  # Z of H-2; -139 for NVFP4, where no bit depends on it


# --- formats: a code is None (not finite), or sign, digits, exponent and value -----------------------
class Format:
    def __init__(self, name, bits, fraction, bias, infinite):
        self.name, self.bits, self.fraction, self.bias, self.infinite = name, bits, fraction, bias, infinite

    def fields(self, code):
        size = code & ((1 << (self.bits - 1)) - 1)
        return code >> (self.bits - 1) & 1, size >> self.fraction, size & ((1 << self.fraction) - 1)

    def special(self, code):
        """None for a finite code, else 'nan' or a signed 1 for an infinity."""
        sign, field, tail = self.fields(code)
        top = (1 << (self.bits - 1 - self.fraction)) - 1
        if self.infinite and field == top:
            return (-1 if sign else 1) if tail == 0 else "nan"
        if self.name == "e4m3" and field == top and tail == 7:
            return "nan"
        return None

    def value(self, code):
        sign, field, tail = self.fields(code)
        digits = tail if field == 0 else tail + (1 << self.fraction)
        exponent = max(field, 1) - self.bias
        value = Fraction(digits, 1 << self.fraction) * Fraction(2) ** exponent
        return (-value if sign else value), exponent


F32 = Format("f32", 32, 23, 127, True)
BF16 = Format("bf16", 16, 7, 127, True)
F16 = Format("f16", 16, 10, 15, True)
E4M3 = Format("e4m3", 8, 3, 7, False)
E2M1 = Format("e2m1", 4, 1, 1, False)


# --- the accumulator: H-1, H-3, H-6 ------------------------------------------------------------------
def toward_zero(x):
    return abs(x).__floor__() * (1 if x >= 0 else -1)


def to_f32(x):
    """The bits of x, cut toward zero."""
    if x == 0:
        return 0
    sign, size = (0x80000000 if x < 0 else 0), abs(x)
    if size >= Fraction(2) ** 128:
        return sign | 0x7F800000
    exponent = LEAST
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    digits = toward_zero(size / Fraction(2) ** (exponent - 23))
    return sign | (digits if digits < 1 << 23 else (exponent + 127 << 23) + digits - (1 << 23))


def block(terms, c, kept):
    """terms: pairs of a value and its exponent; c: bits of a finite binary32."""
    value, exponent = F32.value(c)
    terms = terms + [(value, OF_ZERO if value == 0 else exponent)]
    unit = Fraction(2) ** (max(e for _, e in terms) - kept)
    return to_f32(sum(toward_zero(v / unit) for v, _ in terms) * unit)


def not_finite(parts):
    """The sum of infinities (signed ones) and NaN."""
    if "nan" in parts or (1 in parts and -1 in parts):
        return NAN
    return 0x7F800000 if 1 in parts else 0xFF800000


def product_special(format, a, b):
    x, y = format.special(a), format.special(b)
    if x is None and y is None:
        return None
    if "nan" in (x, y):
        return "nan"
    sign = -1 if (a ^ b) >> (format.bits - 1) & 1 else 1
    other = b if x is not None else a
    both = x is not None and y is not None
    return sign if both or format.value(other)[0] != 0 else "nan"


def flat(format, a, b, c):
    parts = [product_special(format, x, y) for x, y in zip(a, b)] + [F32.special(c)]
    parts = [part for part in parts if part is not None]
    if parts:
        return not_finite(parts)
    terms = []
    for x, y in zip(a, b):
        (u, i), (v, j) = format.value(x), format.value(y)
        terms.append((u * v, i + j if u * v != 0 else OF_ZERO))
    return block(terms, c, 25)


def grouped(a, b, scales_a, scales_b, c):
    terms, parts = [], [F32.special(c)]
    for q in range(4):
        x, y = scales_a >> 8 * q & 0x7F, scales_b >> 8 * q & 0x7F
        if x == 0x7F or y == 0x7F:
            parts.append("nan")
            continue
        total = sum(E2M1.value(a[k])[0] * E2M1.value(b[k])[0] for k in range(16 * q, 16 * q + 16))
        (u, i), (v, j) = E4M3.value(x), E4M3.value(y)
        terms.append((total * u * v, i + j if u * v != 0 else OF_ZERO))  # H-13: the first reading
    parts = [part for part in parts if part is not None]
    return not_finite(parts) if parts else block(terms, c, 35)


# --- the manual's places of elements ----------------------------------------------------------------
def place(width):
    """Per lane, the row and k of its elements of A, and the k and column of those of B."""
    a, b = [], []
    for lane in range(32):
        group, thread = lane >> 2, lane % 4
        a.append([(group if i // width in (0, 2) else group + 8,
                   thread * width + i % width + (0 if i < 2 * width else 4 * width)) for i in range(4 * width)])
        b.append([(thread * width + i % width + (0 if i < width else 4 * width), group) for i in range(2 * width)])
    return a, b


def place_d(lane):
    group, thread = lane >> 2, lane % 4
    return [(group, thread * 2), (group, thread * 2 + 1), (group + 8, thread * 2), (group + 8, thread * 2 + 1)]


def words(codes, bits):
    """The registers of one lane from its elements, the first in the low bits."""
    width, out = 32 // bits, ""
    for first in range(0, len(codes), width):
        out += "%08x" % sum(code << bits * i for i, code in enumerate(codes[first:first + width]))
    return out


# --- operands ----------------------------------------------------------------------------------------
class Numbers:
    """A stream of numbers from a name."""

    def __init__(self, name):
        self.name, self.at = name, 0

    def below(self, n):
        self.at += 1
        digest = hashlib.sha256(f"{self.name} {self.at}".encode()).digest()
        return int.from_bytes(digest[:8], "little") % n


def operand(numbers, format, kind):
    code = numbers.below(1 << format.bits)
    if format is E2M1:
        return code
    sign = code >> (format.bits - 1) << (format.bits - 1)
    tail = code & ((1 << format.fraction) - 1)
    if kind == "hostile" and numbers.below(12) == 0:
        top = (1 << (format.bits - 1)) - (1 << format.fraction)
        tops = [top, top + 1, top - 1, (1 << (format.bits - 1)) - 1] if format.infinite else [0x7E, 0x7F]
        small = [0, 1, (1 << format.fraction) - 1, 1 << format.fraction]
        return sign | (tops + small * 4)[numbers.below(len(tops) + 16)]
    if kind == "codes":
        return code if format.special(code) is None else sign | tail
    if numbers.below(8) == 0:
        return sign
    spread = {"bf16": 40, "f16": 12, "e4m3": 6}[format.name] if kind == "wide" else 3
    centre = {"bf16": 76, "f16": 11, "e4m3": 3}[format.name] if kind == "tiny" else 0
    field = format.bias + numbers.below(2 * spread + 1) - spread - centre
    return sign | field << format.fraction | tail


def addend(numbers, kind):
    sign, tail = numbers.below(2) << 31, numbers.below(1 << 23)
    hard = [0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000]
    if kind == "hostile" and numbers.below(3) == 0:
        return sign | hard[numbers.below(len(hard))]
    if kind == "tiny":  # 0, or a number near the least one
        return sign | (numbers.below(64) if numbers.below(4) == 0 else 0)
    spread, centre = {"wide": 60, "huge": 90, "codes": 120}.get(kind, 4), 10 if kind == "apart" else 0
    return sign | 127 + numbers.below(2 * spread + 1) - spread - centre << 23 | tail


def scales(numbers, kind):
    word = 0
    for q in range(4):
        code = 0x30 + numbers.below(16) if kind == "plain" else numbers.below(0x7F)
        if kind == "apart":
            code = 0x60 + code % 31 if q % 2 else 1 + code % 31
        if kind == "hostile" and numbers.below(12) == 0:
            code = [0, 0x7F, 0x80, 0xFF, 1, 0x7E][numbers.below(6)]
        word |= code << 8 * q
    return word


def cancel(a, b):
    """Each second product is the negative of the one before, except in the last eight."""
    for k in range(0, len(a) - 8, 2):
        a[k + 1] = a[k]
    for k in range(0, len(b) - 8, 2):
        b[k + 1] = b[k]


def apart(a, b):
    """In the odd quarters of k, all products are zero, but neither factor always is."""
    for k in range(len(a)):
        if 4 * k // len(a) % 2 and k % 2:
            a[k] = 0
    for k in range(len(b)):
        if 4 * k // len(b) % 2 and k % 2 == 0:
            b[k] = 0


KINDS = ["plain", "codes", "wide", "huge", "cancel", "hostile", "hostile", "plain", "apart", "wide", "tiny"]


def warp(format, number):
    kind, bits = KINDS[number], format.bits
    depth, numbers = 256 // bits, Numbers(f"{format.name} {number}")
    a = [[operand(numbers, format, kind) for _ in range(depth)] for _ in range(16)]
    b = [[operand(numbers, format, kind) for _ in range(depth)] for _ in range(8)]  # by columns
    c = [[addend(numbers, kind) for _ in range(8)] for _ in range(16)]
    if kind == "cancel":
        for row in a:
            cancel(row, [])
            for k in range(1, depth - 8, 2):
                row[k] ^= 1 << (bits - 1)
        for column in b:
            cancel([], column)
    if kind == "apart":
        for row in a:
            apart(row, [])
        for column in b:
            apart([], column)
    p, q = number % 2, number % 4
    sa, sb = ([scales(numbers, kind) for _ in range(32)] for _ in range(2))
    row_scale = [sa[4 * (m % 8) + 2 * p + m // 8] for m in range(16)]
    column_scale = [sb[4 * n + q] for n in range(8)]
    d = [[grouped(a[m], b[n], row_scale[m], column_scale[n], c[m][n]) if format is E2M1
          else flat(format, a[m], b[n], c[m][n]) for n in range(8)] for m in range(16)]
    in_a, in_b = place(32 // bits)
    out = {"kind": kind,
           "a": "".join(words([a[m][k] for m, k in lane], bits) for lane in in_a),
           "b": "".join(words([b[n][k] for k, n in lane], bits) for lane in in_b),
           "c": "".join(words([c[m][n] for m, n in place_d(lane)], 32) for lane in range(32)),
           "d": "".join(words([d[m][n] for m, n in place_d(lane)], 32) for lane in range(32))}
    if format is E2M1:
        out.update(sa=words(sa, 32), sb=words(sb, 32), p=p, q=q)
    return out


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for format, name in ((BF16, "bf16"), (F16, "f16"), (E4M3, "e4m3"), (E2M1, "nvfp4")):
        warps = [warp(format, number) for number in range(len(KINDS))]
        with open(os.path.join(folder, name + ".json"), "w", encoding="ascii") as out:
            json.dump({"atom": name, "warps": warps}, out, indent=1)
            out.write("\n")


main()

#!/usr/bin/env python3
"""The golden vectors of the sampler, from section P of docs/spec.md only.

sampler.py DIR writes DIR/sampler.json and DIR/sampler.safetensors. Everything is computed
independently of ref/ and in another way: sums and quotients as exact fractions that are rounded
once, functions by mpmath with enough bits to be certain of the rounding, prefix sums one after the
other. numpy only holds the written arrays.

A binary32 number is a Python float that is exact in binary32.
"""

import hashlib
import json
import math
import struct
import sys
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import mpmath
import numpy
import safetensors
import safetensors.numpy

SPEC = 2
PURPOSES = ("token", "draft", "accept", "residual")  # indices are the numbers of their words
LARGEST_U = 1 - 2.0**-24

# --- binary32 ---------------------------------------------------------------------------------------


def nearest(n: int, d: int) -> float:
    """The binary32 nearest to n / d >= 0, ties to even; infinite from 2^128 - 2^103 on."""
    if n == 0:
        return 0.0
    top = n.bit_length() - d.bit_length()
    if n << max(-top, 0) < d << max(top, 0):
        top -= 1
    unit = max(top - 23, -149)
    d <<= max(unit, 0)
    count, rest = divmod(n << max(-unit, 0), d)
    if 2 * rest > d or (2 * rest == d and count % 2 == 1):
        count += 1
    value = math.ldexp(count, unit)
    return math.inf if value >= 2.0**128 else value


def rounded(x: Fraction) -> float:
    """The nearest binary32; a zero has no sign."""
    value = nearest(abs(x.numerator), x.denominator)
    return value if x >= 0 else -value


def function(f, x: float) -> float:
    """f(x), correctly rounded: precision grows until both ends of the error round alike."""
    bits = 120
    while True:
        with mpmath.workprec(bits):
            sign, mantissa, exponent, _ = f(mpmath.mpf(x))._mpf_
        n, d = int(mantissa) << max(exponent, 0), 1 << max(-exponent, 0)
        scale = 1 << (bits - 8)  # the error is far below 1 / scale of the value
        low, high = nearest(n * (scale - 1), d * scale), nearest(n * (scale + 1), d * scale)
        if low == high:
            return -low if sign else low
        bits *= 2


def exp(x: float) -> float:
    if x == 0:
        return 1.0
    return 0.0 if x < -104 else function(mpmath.exp, x)


def log(x: float) -> float:
    return 0.0 if x == 1 else function(mpmath.log, x)


def log1p(x: float) -> float:
    return function(mpmath.log1p, x)


def difference(a: float, b: float) -> float:
    return rounded(Fraction(a) - Fraction(b))


def quotient(a: float, b: float) -> float:
    """a / b, where a may be infinite."""
    return a if math.isinf(a) else rounded(Fraction(a) / Fraction(b))


def product(a: float, b: float) -> float:
    return rounded(Fraction(a) * Fraction(b))


def exact_sum(values) -> Fraction:
    return sum(map(Fraction, values), Fraction(0))


def binary32(x: float) -> float:
    """The same number, or the nearest; a zero keeps its sign."""
    return rounded(Fraction(x)) if x else x


def bits_of(x: float) -> str:
    return struct.pack(">f", x).hex()


# --- P-2 to P-7: probabilities ----------------------------------------------------------------------


def order_of(logits) -> list:
    """P-2. Python compares -0.0 and 0.0 as equal."""
    return sorted(range(len(logits)), key=lambda i: (-logits[i], i))


def exponentials(logits, temperature: float) -> list:
    """P-3."""
    largest = max(logits)
    return [exp(quotient(difference(x, largest), temperature)) for x in logits]


def run_length(values, top_p: float) -> int:
    """P-5: the number of kept values; the values are those of P-3 in the order of P-2."""
    if top_p == 1:
        return len(values)
    enough = product(top_p, rounded(exact_sum(values)))
    so_far = Fraction(0)
    for count, value in enumerate(values, 1):
        so_far += Fraction(value)
        if rounded(so_far) >= enough:
            return count
    raise AssertionError("the whole sum is not enough")


def probabilities(logits, temperature: float, top_k=0, top_p=1.0, min_p=0.0) -> list:
    """P-1 and P-7."""
    order = order_of(logits)
    if temperature == 0:
        return [1.0 if i == order[0] else 0.0 for i in range(len(logits))]
    e = exponentials(logits, temperature)
    kept = order[:top_k] if top_k else order
    kept = kept[: run_length([e[i] for i in kept], top_p)]
    kept = [i for i in kept if e[i] >= min_p]
    total = rounded(exact_sum(e[i] for i in kept))
    p = [0.0] * len(logits)
    for i in kept:
        p[i] = quotient(e[i], total)
    return p


# --- P-8 to P-13: draws -----------------------------------------------------------------------------


def philox(counter, key) -> tuple:
    """Philox4x32-10 as in its paper."""
    mask = 2**32 - 1
    left0, right0, left1, right1 = counter
    key0, key1 = key
    for _ in range(10):
        wide0, wide1 = 0xD2511F53 * left0, 0xCD9E8D57 * left1
        left0, right0, left1, right1 = (
            wide1 >> 32 ^ right0 ^ key0,
            wide1 & mask,
            wide0 >> 32 ^ right1 ^ key1,
            wide0 & mask,
        )
        key0, key1 = key0 + 0x9E3779B9 & mask, key1 + 0xBB67AE85 & mask
    return left0, right0, left1, right1


@lru_cache(maxsize=None)
def block(place: tuple, token: int) -> tuple:
    """P-8."""
    seed, sequence, position = place
    low = 2**32 - 1
    counter = (token, position & low, sequence & low, sequence >> 32)
    return philox(counter, (seed & low, seed >> 32))


def word(place, token, purpose) -> int:
    return block(place, token)[PURPOSES.index(purpose)]


def uniform(place, token, purpose) -> float:
    """P-9."""
    return min(rounded(Fraction(2 * word(place, token, purpose) + 1, 2**33)), LARGEST_U)


@lru_cache(maxsize=None)
def gumbel(place, token, purpose) -> float:
    """g of P-10."""
    return -log(-log1p(-uniform(place, token, purpose)))


logarithm = lru_cache(maxsize=None)(log)


def pick(weights, place, purpose) -> int:
    """P-10. max() takes the first of equal values."""
    scores = [
        (i, rounded(Fraction(logarithm(w)) + Fraction(gumbel(place, i, purpose))))
        for i, w in enumerate(weights)
        if w > 0
    ]
    return max(scores, key=lambda pair: pair[1])[0]


def accepts(p, q, draft, place) -> bool:
    """P-12."""
    u = uniform(place, draft, "accept")
    return q[draft] > 0 and Fraction(u) * Fraction(q[draft]) < Fraction(p[draft])


def replacement(p, q, place) -> int:
    """P-13."""
    rest = [max(difference(a, b), 0.0) for a, b in zip(p, q)]
    return pick(rest if any(rest) else p, place, "residual")


# --- what is written --------------------------------------------------------------------------------

# Seed, sequence and position; all words of all three matter. The last three come from a search:
# word 0 of token 0 is all ones except the last bit at HIGHEST_PLACE, and 0 at LOWEST_PLACE; at
# TIED_PLACE tokens 0 and 3 have the same g.
PLACES = [
    (42, 0, 0),
    (42, 0, 1),
    (42, 1, 0),
    (43, 0, 0),
    (2**32 + 42, 0, 0),
    (42, 2**32, 0),
    (0x0123456789ABCDEF, 0xFEDCBA9876543210, 0xFFFFFF),
    (2**64 - 1, 2**64 - 1, 2**32 - 1),
]
HIGHEST_PLACE = (42, 48, 218240)
LOWEST_PLACE = (42, 108, 1595538)
TIED_PLACE = (42, 0, 499913)


def spread(name: str, count: int, deviation: float, grain: int) -> list:
    """Approximately normal logits, multiples of 2^-grain, from SHA-256 of the name."""
    values = []
    for i in range(count):
        digest = hashlib.sha256(f"{name} {i}".encode()).digest()
        parts = struct.unpack("<12H", digest[:24])
        deviate = sum(parts) / 65536 - 6
        values.append(round(deviate * deviation * 2**grain) / 2**grain)
    return values


def logits_sets() -> dict:
    largest = rounded(Fraction(2**128 - 2**104))
    sets = {
        "seven": [1.5, -0.25, 3.0, 1.5, 0.5, 3.0, -2.0],
        "equal": [0.75] * 7,
        "zeros": [-0.0, 0.0, -0.0, 0.0, -1.0, -0.0, 0.0],
        "four": [-200.0, 0.0, 0.0, -200.0, 0.0, 0.0, -200.0],
        "one": [-1e30, -1e30, -1e30, 5.0, -1e30, -1e30, -1e30],
        "huge": [largest, -largest, 0.0, largest, -1.0, -largest, 2.0],
        "tiny": [0.0, -87.5, -95.0, -100.0, -103.0, -103.9, -104.5],
        "led": [0.0, -16.0, -17.0, -18.0, -17.0, -19.0, -20.0],
        "trailed": [-26.0, 0.0, -1.0, 0.0, -2.0, 0.5, 0.0],
        "middle": spread("middle", 377, 3.0, 12),
        "coarse": spread("coarse", 377, 2.0, 1),
        "large": spread("large", 5000, 2.5, 10),
        "flat": spread("flat", 5000, 0.25, 12),
    }
    return {name: [binary32(x) for x in values] for name, values in sets.items()}


def float_run_length(values, top_p: float) -> int:
    """P-5 with a binary32 sum, which a vector must distinguish."""
    enough = product(top_p, rounded(exact_sum(values)))
    so_far = numpy.float32(0)
    for count, value in enumerate(values, 1):
        so_far += numpy.float32(value)
        if float(so_far) >= enough:
            return count
    return len(values)


def drifting_top_p(values) -> float:
    """A top_p for which a sum in binary32 is wrong."""
    for i in range(1, 1024):
        if run_length(values, i / 1024) != float_run_length(values, i / 1024):
            return i / 1024
    raise AssertionError("no top_p tells the sums apart")


def tied_top_p(values) -> float:
    """A top_p that a prefix reaches only because its sum is rounded."""
    total, so_far = rounded(exact_sum(values)), Fraction(0)
    for value in values[:-1]:
        so_far += Fraction(value)
        top_p = rounded(Fraction(rounded(so_far)) / Fraction(total))
        if product(top_p, total) == rounded(so_far) > so_far and top_p < 1:
            return top_p
    raise AssertionError("no top_p is reached by rounding")


def case_list(sets: dict) -> list:
    """Name, logits, temperature, top_k, top_p, min_p."""
    flat = exponentials(sets["flat"], 1.0)
    flat = [flat[i] for i in order_of(sets["flat"])]
    cases = [
        ("greedy", "seven", 0.0, 3, 0.5, 0.5),
        ("greedy zeros", "zeros", 0.0, 0, 1.0, 0.0),
        ("plain", "seven", 1.0, 0, 1.0, 0.0),
        ("plain low", "seven", 0.3, 0, 1.0, 0.0),
        ("ties at top_k 1", "seven", 1.0, 1, 1.0, 0.0),
        ("ties at top_k 3", "seven", 1.0, 3, 1.0, 0.0),
        ("top_k above V", "seven", 0.8, 8, 1.0, 0.0),
        ("top_k at V", "seven", 0.8, 7, 1.0, 0.0),
        ("top_k largest", "seven", 0.8, 2**32 - 1, 0.9, 0.0),
        ("equal plain", "equal", 1.0, 0, 1.0, 0.0),
        ("equal top_k", "equal", 1.0, 4, 1.0, 0.0),
        ("equal top_p", "equal", 1.0, 0, 0.5, 0.0),
        ("equal largest top_p", "equal", 1.0, 0, LARGEST_U, 0.0),
        ("equal min_p", "equal", 1.0, 0, 1.0, 1.0),
        ("zeros top_k", "zeros", 1.0, 3, 1.0, 0.0),
        ("zeros top_p", "zeros", 2.0, 0, 0.3, 0.0),
        ("half exactly", "four", 1.0, 0, 0.5, 0.0),
        ("half and a bit", "four", 1.0, 0, 0.5 + 2**-24, 0.0),
        ("smallest top_p", "four", 1.0, 0, 2.0**-149, 0.0),
        ("largest top_p", "four", 1.0, 0, LARGEST_U, 0.0),
        ("one", "one", 1.0, 0, 1.0, 0.0),
        ("one of many", "one", 1.0, 3, 0.9, 0.1),
        ("beyond range", "huge", 1.0, 0, 1.0, 0.0),
        ("beyond range, cold", "huge", 2.0**-149, 0, 1.0, 0.0),
        ("beyond range, hot", "huge", 1e38, 0, 1.0, 0.0),
        ("coldest", "seven", 2.0**-149, 0, 1.0, 0.0),
        ("hottest", "seven", 3e38, 0, 1.0, 0.0),
        ("subnormal", "tiny", 1.0, 0, 1.0, 0.0),
        ("subnormal min_p", "tiny", 1.0, 0, 1.0, 2.0**-149),
        ("led", "led", 1.0, 0, 1.0, 0.0),
        ("trailed", "trailed", 1.0, 0, 1.0, 0.0),
        ("middle", "middle", 1.0, 0, 1.0, 0.0),
        ("middle temperature", "middle", 0.7, 0, 1.0, 0.0),
        ("middle top_k", "middle", 1.0, 20, 1.0, 0.0),
        ("middle top_p", "middle", 1.0, 0, 0.9, 0.0),
        ("middle min_p", "middle", 1.0, 0, 1.0, 0.05),
        ("middle top_p, min_p", "middle", 1.0, 0, 0.6, 0.05),
        ("middle all", "middle", 1.5, 50, 0.8, 0.02),
        ("middle published", "middle", 0.6, 20, 0.95, 0.0),
        ("coarse top_k", "coarse", 1.0, 10, 1.0, 0.0),
        ("coarse top_p", "coarse", 0.9, 0, 0.75, 0.0),
        ("coarse min_p", "coarse", 2.0, 0, 1.0, exp(-1.25)),
        ("coarse all", "coarse", 3.0, 100, 0.9, 0.1),
        ("large", "large", 1.0, 0, 1.0, 0.0),
        ("large all", "large", 1.2, 200, 0.9, 0.01),
        ("flat drift", "flat", 1.0, 0, drifting_top_p(flat), 0.0),
        ("flat tie", "flat", 1.0, 0, tied_top_p(flat), 0.0),
    ]
    return [
        (name, logits, binary32(temperature), top_k, binary32(top_p), binary32(min_p))
        for name, logits, temperature, top_k, top_p, min_p in cases
    ]


def places_for(weights, places) -> list:
    """Only the first few for a large vocabulary, because exact fractions are slow."""
    return places[:4] if len(weights) > 1000 else places


def draws(weights, places) -> dict:
    """The tokens at the first places, by purpose."""
    return {
        purpose: [pick(weights, place, purpose) for place in places_for(weights, places)]
        for purpose in (PURPOSES[:1] if len(weights) > 1000 else PURPOSES)
    }


def all_cases(sets, places, tensors) -> list:
    rows = []
    for name, logits, temperature, top_k, top_p, min_p in case_list(sets):
        p = probabilities(sets[logits], temperature, top_k, top_p, min_p)
        tensors[f"p/{name}"] = p
        rows.append(
            {
                "name": name,
                "logits": logits,
                "temperature": bits_of(temperature),
                "top_k": top_k,
                "top_p": bits_of(top_p),
                "min_p": bits_of(min_p),
                "kept": sum(x > 0 for x in p),
                "draws": draws(p, places),
            }
        )
    return rows


def noise(places) -> list:
    rows = []
    for place in places:
        for token in (0, 1, 6, 376, 248319, 2**32 - 1):
            for purpose in PURPOSES:
                rows.append(
                    [
                        places.index(place),
                        token,
                        purpose,
                        f"{word(place, token, purpose):08x}",
                        bits_of(uniform(place, token, purpose)),
                        bits_of(gumbel(place, token, purpose)),
                    ]
                )
    return rows


def rounding_pair(place) -> tuple:
    """q(0), and a p(0) that is above u q(0) but equals it after rounding."""
    u = uniform(place, 0, "accept")
    for i in range(1, 1000):
        q = i / 1024
        p = product(u, q)
        if Fraction(p) > Fraction(u) * Fraction(q):
            return p, q
    raise AssertionError("every product rounds down")


def level(place) -> float:
    """p(0) that equals u q(0) for q(0) = 1/2."""
    return uniform(place, 0, "accept") / 2


def weight_sets(places) -> dict:
    """Distributions, or ones with possible rounding errors, for the residual mode."""
    step = 2.0**-149
    p, q = rounding_pair(places[0])
    return {
        "quarters": [0.25, 0.25, 0.0, 0.125, 0.125, 0.25, 0.0],
        "eighths": [0.125, 0.5, 0.125, 0.0, 0.125, 0.0, 0.125],
        "least": [0.0, 3 * step, step, step, 0.0, 2 * step, step],
        "below": [0.25 - 2.0**-26, 0.25, 0.0, 0.125, 0.125, 0.25, 0.0],
        "first": [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        "fifth": [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        "almost": [p, 0.25, 0.25, 0.0, 0.0, 0.0, 0.0],
        "proposed": [q, 0.0, 0.0, 0.0, 0.125, 0.0, 0.0],
        "level": [level(places[0]), 0.5, 0.0, 0.0, 0.0, 0.0, 0.0],
        "pair": [0.5, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0],
    }


PAIRS = [
    ("quarters", "eighths"),
    ("eighths", "quarters"),
    ("quarters", "quarters"),
    ("below", "quarters"),
    ("least", "least"),
    ("quarters", "first"),
    ("quarters", "fifth"),
    ("first", "first"),
    ("first", "fifth"),
    ("first", "eighths"),
    ("almost", "proposed"),
    ("level", "pair"),
    ("p/middle all", "p/middle published"),
    ("p/middle", "p/coarse all"),
    ("p/large", "p/large all"),
]


def residuals(places, tensors) -> list:
    """Per pair and place: the draft drawn from q, whether it is accepted, and its replacement; for
    a small vocabulary also for every other draft."""
    rows = []
    for p_name, q_name in PAIRS:
        p, q = tensors[p_name], tensors[q_name]
        rounds = []
        for at, place in enumerate(places_for(p, places)):
            drawn = pick(q, place, "draft")
            token = replacement(p, q, place)
            drafts = [drawn] + (list(range(7)) if len(p) == 7 else [])
            rounds += [[at, d, int(accepts(p, q, d, place)), token] for d in drafts]
        rows.append({"p": p_name, "q": q_name, "rounds": rounds})
    return rows


def hex_place(place) -> list:
    return [f"{number:x}" for number in place]


def lines_of(value, depth: int) -> str:
    """JSON with one line per value at `depth` levels."""
    if depth == 0 or not isinstance(value, (dict, list)):
        return json.dumps(value, separators=(", ", ": "))
    if isinstance(value, dict):
        inner = [f"{json.dumps(k)}: {lines_of(v, depth - 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(inner) + "\n}"
    return "[\n" + ",\n".join(lines_of(v, depth - 1) for v in value) + "\n]"


def main() -> int:
    """The command line."""
    if len(sys.argv) != 2:
        print("usage: sampler.py DIR", file=sys.stderr)
        return 2
    assert word(HIGHEST_PLACE, 0, "token") >= 2**32 - 64, "not next to the largest word"
    assert word(LOWEST_PLACE, 0, "token") == 0, "not the smallest word"
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    assert gumbel(TIED_PLACE, 0, "token") == gumbel(TIED_PLACE, 3, "token"), "no tie"
    places = [*PLACES, HIGHEST_PLACE, LOWEST_PLACE, TIED_PLACE]
    sets = logits_sets()
    tensors = {f"logits/{name}": values for name, values in sets.items()}
    weights = weight_sets(places)
    tensors.update(weights)
    document = {
        "spec": SPEC,
        "generator": f"tools/gen/sampler.py, mpmath {mpmath.__version__}",
        "places": [hex_place(place) for place in places],
        "noise": noise(places),
        "cases": all_cases(sets, places, tensors),
        "picks": [{"weights": name, "draws": draws(weights[name], places)} for name in weights],
        "residuals": residuals(places, tensors),
    }
    arrays = {name: numpy.array(values, dtype=numpy.float32) for name, values in tensors.items()}
    (folder / "sampler.json").write_text(lines_of(document, 2) + "\n", encoding="utf-8")
    made_by = {"generator": f"safetensors {safetensors.__version__}"}
    (folder / "sampler.safetensors").write_bytes(safetensors.numpy.save(arrays, made_by))
    return 0


if __name__ == "__main__":
    sys.exit(main())

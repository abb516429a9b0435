#!/usr/bin/env python3
"""Writes a KLD base file like llama.cpp's perplexity tool (--kl-divergence-base), from recorded logits.

    kld_fixture.py OUT CLAMP CHUNK...     CHUNK: IDS.txt,LOGITS.npy   of equal length; CLAMP 16, or 24 (ik_llama.cpp)

Follows tools/perplexity/perplexity.cpp, log_softmax() with 16-bit codes, in binary32: the same logits give the same
bytes. The file is not written by the program itself.
"""
import struct
import sys

import numpy as np

F = np.float32


def row(x, clamp):
    most = x.max()
    least = max(x.min(), F(most - F(clamp)))
    total = float(sum(float(np.exp(F(v - most), dtype=F)) for v in x))  # binary32 terms, added in binary64
    log_sum = F(np.log(total))
    least_logprob = F(F(least - most) - log_sum)
    scale = F(F(most - least) / F(65535))
    codes = np.zeros(len(x) + len(x) % 2, dtype="<u2")
    if scale:
        inverse = F(F(1) / scale)
        steps = np.rint((inverse * (x - least)).astype(F))  # ties to even, as nearest_int()
        codes[: len(x)] = np.where(x > least, steps, 0).astype("<u2")
    return struct.pack("<ff", scale, least_logprob) + codes.tobytes()


def main():
    out, clamp, chunks = sys.argv[1], float(sys.argv[2]), [c.split(",") for c in sys.argv[3:]]
    ids = [[int(t) for t in open(c[0]).read().replace(",", " ").split()] for c in chunks]
    logits = [np.load(c[1]) for c in chunks]
    context, vocab = len(ids[0]), logits[0].shape[1]
    assert all(len(i) == context for i in ids)
    with open(out, "wb") as f:
        f.write(b"_logits_" + struct.pack("<iii", context, vocab, len(chunks)))
        for i in ids:
            f.write(np.array(i, dtype="<i4").tobytes())
        for x in logits:
            for r in range(context // 2, context - 1):
                f.write(row(x[r].astype(F), clamp))


main()

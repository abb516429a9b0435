"""Rows for the special rules of activation quantizers; every value is exact in BF16."""

import numpy as np

from quant.files import bell, uniform

ROWS, COLUMNS = 16, 256
GLOBALS = (64.0, 243.0, 1.0)  # NVFP4 divisors: 2688 / 42, about 2688 / 11.0625, 2688 / 2688


def _bf16(values: np.ndarray) -> np.ndarray:
    """Round to BF16, ties to even, as f32."""
    bits = values.astype(np.float32).view(np.uint32)
    bits = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


def rows() -> np.ndarray:
    """[ROWS, COLUMNS] f32."""
    out = np.zeros((ROWS, COLUMNS))
    normal = bell(ROWS * COLUMNS, 7).reshape(ROWS, COLUMNS)
    out[0] = normal[0]
    out[1] = normal[1] * 8.0
    out[2] = normal[2] * normal[2] * normal[2] * 4.0  # heavy tails
    out[3] = np.sign(normal[3]) * 2.0 ** np.floor(uniform(COLUMNS, 3) * 24 - 12)
    out[4] = 0.0
    out[5] = -0.0
    out[6] = normal[6] * 2.0**-30
    out[7] = normal[7] * 2.0**-120
    out[8] = normal[8] * 128.0  # beyond the calibration of the NVFP4 globals
    out[9] = normal[9] * 2.0**100
    # Quotients on the ties of E2M1 if the block scale is a power of two.
    ties = np.array([6, 0.25, -0.75, 1.25, -1.75, 2.5, -3.5, 5, -0.25, 0.75, -1.25, 1.75])
    ties = np.concatenate([ties, [-2.5, 3.5, -5, -6]])
    for block in range(COLUMNS // 16):
        out[10, 16 * block : 16 * block + 16] = ties * 2.0 ** (block % 4 - 2)
    # Ties of E4M3 if the scale is one: 448 in every group, neighbours' midpoints otherwise.
    middle = (np.arange(COLUMNS) % 8 + 8.5) * 2.0 ** (np.arange(COLUMNS) // 8 % 10 - 6)
    out[11] = np.where(np.arange(COLUMNS) % 2, -middle, middle)
    out[11, ::32] = 448.0
    # Block scales on the ties of E4M3: amax / 6 * G = (8.5 + i) * 2^j for G = 64.
    for block in range(COLUMNS // 16):
        amax = 6 * (8.5 + block % 8) * 2.0 ** (block // 8 - 6)
        out[12, 16 * block : 16 * block + 16] = normal[12, :16] / 8 * amax
        out[12, 16 * block] = amax
    out[13] = np.where(np.arange(COLUMNS) // 16 % 2, normal[13], 0.0)  # every other block zero
    out[14] = np.linspace(-1.0, 1.0, COLUMNS)
    out[15] = np.where(np.arange(COLUMNS) % 64 == 5, 300.0, normal[15] * 2.0**-6)
    out = _bf16(out)
    out[5] = -0.0
    return out

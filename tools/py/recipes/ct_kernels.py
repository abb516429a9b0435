"""Layers in binary32 with weights that compressed-tensors unpacks and dequantizes."""

import torch
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import dequantize

NVFP4 = QuantizationArgs(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True)
FP8_BLOCK = QuantizationArgs(num_bits=8, type="float", strategy="block", block_structure=[128, 128], symmetric=True)


def nvfp4_linear(x, weight_packed, weight_scale, weight_global_scale):
    rows, half = weight_packed.shape
    codes = unpack_fp4_from_uint8(weight_packed, rows, 2 * half, dtype=torch.float32)
    weight = dequantize(
        codes, weight_scale.float(), args=NVFP4, dtype=torch.float32, global_scale=weight_global_scale
    )
    return x.float() @ weight.T


def fp8_linear(x, weight, weight_scale_inv):
    """The block scales of a checkpoint, which compressed-tensors calls weight_scale."""
    rows, cols = weight.shape
    pad = (0, -cols % 128, 0, -rows % 128)  # its blocks must be complete
    wide = torch.nn.functional.pad(weight.float(), pad)
    full = dequantize(wide, weight_scale_inv.float(), args=FP8_BLOCK, dtype=torch.float32)
    return x.float() @ full[:rows, :cols].T

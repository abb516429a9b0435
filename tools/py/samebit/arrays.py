"""Converts arrays of any library for the library of samebit, and back, without a copy.

A NumPy array, a torch tensor on the CPU (including bfloat16 and float8), and any array with DLPack is used in
place. An array that is not contiguous, or on a device, is copied. NumPy has no bfloat16 and no float8:
results in NumPy have the types of `ml_dtypes` if it is installed. Otherwise bfloat16 and float16 become
float32, which holds them exactly, and float8 becomes bytes.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple, Tuple

import numpy as np

#: names of types in a safetensors file, by those of NumPy, ml_dtypes and torch
DTYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
}
#: bytes of an element
SIZE = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2}
SIZE.update({"U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8})
#: the types among them that NumPy itself has
PLAIN = {file: name for name, file in DTYPES.items() if hasattr(np, name)}
PLAIN["BOOL"] = "bool_"
#: replacements for the others without ml_dtypes: the types with the same bits
BITS = {"BF16": "uint16", "F8_E4M3": "uint8", "F8_E5M2": "uint8", "F8_E8M0": "uint8", "F4": "uint8"}


class Memory(NamedTuple):
    """The memory of a foreign array; `owner` keeps it alive."""

    address: int
    dtype: str
    shape: Tuple[int, ...]
    owner: Any


# --- DLPack -------------------------------------------------------------------------------------------
class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_CPU = (1, 3)  # kDLCPU, kDLCUDAHost
#: (code, bits) of DLPack 1.1
_DLPACK = {
    (0, 8): "I8", (0, 16): "I16", (0, 32): "I32", (0, 64): "I64",
    (1, 8): "U8", (1, 16): "U16", (1, 32): "U32", (1, 64): "U64",
    (2, 16): "F16", (2, 32): "F32", (2, 64): "F64",
    (4, 16): "BF16", (6, 8): "BOOL",
    (10, 8): "F8_E4M3", (12, 8): "F8_E5M2", (14, 8): "F8_E8M0",
}  # fmt: skip


def _from_dlpack(array: Any) -> Memory:
    capsule = array.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(pointer(capsule, b"dltensor"))
    if tensor.device_type not in _CPU:
        raise TypeError("the array is on a device, expected one on the CPU: copy it first")
    dtype = _DLPACK.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise TypeError(f"DLPack type {tensor.code} of {tensor.bits} bits is not known")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if tensor.strides:
        _need_dense(shape, tuple(tensor.strides[i] for i in range(tensor.ndim)))
    return Memory((tensor.data or 0) + tensor.byte_offset, dtype, shape, (array, capsule))


def _need_dense(shape: Tuple[int, ...], strides: Tuple[int, ...]) -> None:
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != step:
            raise ValueError(
                f"an array of shape {shape} with strides {strides} is not dense: call .contiguous() or "
                "numpy.ascontiguousarray on it"
            )
        step *= size


# --- in -------------------------------------------------------------------------------------------------
def memory(array: Any) -> Memory:
    """The memory of an array's elements. TypeError or ValueError if the array cannot be used."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        array = array.detach()
        name = str(array.dtype).removeprefix("torch.")
        if array.device.type != "cpu":
            array = array.cpu()  # a copy from the device
        if name not in DTYPES:
            raise TypeError(f"torch.{name} has no name in a safetensors file")
        array = array.resolve_conj().resolve_neg()  # otherwise the memory has other signs
        array = array.contiguous()  # a copy if it is not contiguous
        return Memory(array.data_ptr(), DTYPES[name], tuple(array.shape), array)
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("the array is masked, and masked elements have no value: call .filled() on it")
    if isinstance(array, (np.ndarray, np.generic)):
        array = np.asarray(array)
        if array.dtype.name not in DTYPES:
            raise TypeError(f"numpy type {array.dtype.name} has no name in a safetensors file")
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)
        return Memory(array.ctypes.data, DTYPES[array.dtype.name], array.shape, array)
    if hasattr(array, "__dlpack__"):
        return _from_dlpack(array)
    raise TypeError(f"{type(array).__name__} is not an array, expected one of NumPy, torch or DLPack")


# --- out ------------------------------------------------------------------------------------------------
def _bytes_at(address: int, count: int, owner: Any) -> np.ndarray:
    """`count` bytes in place, read-only; they live as long as `owner`."""
    buffer = (ctypes.c_uint8 * count).from_address(address)
    buffer._owner = owner
    view = np.frombuffer(buffer, dtype=np.uint8)
    view.flags.writeable = False
    return view


def raw(at: Memory, bytes_count: int) -> np.ndarray:
    """The array in place, as a NumPy type with the same bits."""
    bits = _bytes_at(at.address, bytes_count, at.owner)
    view = bits.view(PLAIN.get(at.dtype) or BITS[at.dtype])
    return view.reshape(at.shape) if at.dtype != "F4" else view


def numpy_of(at: Memory, bytes_count: int) -> np.ndarray:
    """The array in the NumPy type described at the top of this file."""
    bits = raw(at, bytes_count)
    if at.dtype not in BITS:
        return bits
    try:
        import ml_dtypes
    except ImportError:
        ml_dtypes = None
    names = {file: name for name, file in DTYPES.items()}
    if ml_dtypes is not None and hasattr(ml_dtypes, names.get(at.dtype, "")):
        return bits.view(getattr(ml_dtypes, names[at.dtype]))
    if at.dtype == "BF16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return bits


def torch_of(at: Memory, bytes_count: int) -> Any:
    """A writable copy of the array as a torch tensor of its type."""
    import torch

    bits = raw(at, bytes_count)
    names = {file: name for name, file in DTYPES.items()}
    if at.dtype in ("U16", "U32", "U64"):
        return torch.from_numpy(bits.astype(np.int64))
    tensor = torch.from_numpy(np.array(bits))
    if at.dtype in BITS and at.dtype != "F4":
        if at.dtype == "BF16":
            tensor = tensor.view(torch.int16)
        tensor = tensor.view(getattr(torch, names[at.dtype]))
    return tensor

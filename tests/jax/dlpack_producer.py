"""Tensors as any library may hand them out by DLPack: of every type code, layout, version and device, through ctypes.

Laid out as `dlpack.h` of DLPack 1.1 has it. Such a capsule is what PyTorch gives for a tensor on the processor.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

PADDED = 1 << 2
READ_ONLY = 1 << 0


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("tensor", Tensor),
    ]  # fmt: skip


_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
_NAMES = {name: ctypes.create_string_buffer(name) for name in (b"dltensor", b"dltensor_versioned", b"used_dltensor")}


class Producer:
    """A tensor of the type (code, bits, lanes) over the memory of a numpy array, whose shape and strides it has."""

    def __init__(self, array: np.ndarray, code: int, bits: int, *, lanes: int = 1, device: int = 1, version: int | None = 1,
                 flags: int = READ_ONLY, strides: bool = True, offset: int = 0, name: bytes | None = None) -> None:  # fmt: skip
        self.array, self.version = array, version
        self.name = name or (b"dltensor" if version is None else b"dltensor_versioned")
        numbers = ctypes.c_int64 * max(1, array.ndim)
        self.shape = numbers(*array.shape)
        self.strides = numbers(*(stride // array.itemsize for stride in array.strides))
        self.tensor = Tensor(
            array.ctypes.data - offset, device, 0, array.ndim, code, bits, lanes, self.shape,
            self.strides if strides else None, offset,
        )  # fmt: skip
        self.struct = Managed(self.tensor) if version is None else Versioned(version, 0, None, None, flags, self.tensor)
        self.exports = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.tensor.device_type, self.tensor.device_id)

    def __dlpack__(self, **options: Any) -> Any:
        if self.version is None and options:
            raise TypeError("an older producer knows no such argument")
        self.exports += 1
        return _new(ctypes.addressof(self.struct), ctypes.addressof(_NAMES[self.name]), None)

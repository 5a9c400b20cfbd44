"""Element types by the names that files give them."""

from __future__ import annotations

from typing import Final

SAFETENSORS: Final = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F4": "float4_e2m1fn",
}
"""Of safetensors 0.8. Not its F6 types: it does not say how four elements lie in three bytes."""
HALVES: Final = frozenset({"float4_e2m1fn"})
"""The types of which safetensors puts two elements in a byte."""

BITS: Final = {
    **{f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": bits for bits in (16, 32, 64)},
    **{f"complex{bits}": bits for bits in (64, 128)},
    **{f"float8_{name}": 8 for name in ("e4m3fn", "e5m2", "e8m0fnu", "e4m3fnuz", "e5m2fnuz", "e4m3", "e3m4", "e4m3b11fnuz")},
    "bool": 8,
    "bfloat16": 16,
    "float4_e2m1fn": 4,
}
"""The bits that an element takes in a file."""

RAW: Final = frozenset(name for name, bits in BITS.items() if name == "bfloat16" or name.startswith("float8_"))
"""The types of ml_dtypes that numpy saves as raw bytes, without their name."""

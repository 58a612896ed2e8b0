"""The dtypes of tensors, by the names that torch and TileLang share."""

from typing import Final

DTYPE_BYTES: Final = {
    "bfloat16": 2, "float16": 2, "float32": 4, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
FLOATS: Final = frozenset(name for name in DTYPE_BYTES if "float" in name)
NARROW_FLOATS: Final = frozenset(name for name in FLOATS if DTYPE_BYTES[name] == 1)
# The largest value of each integer dtype. Packed words are uint8 or int32.
LARGEST: Final = {"int64": 2**63 - 1, "int32": 2**31 - 1, "int16": 2**15 - 1, "int8": 127, "uint8": 255}

# Token in a shape key -> dtype. Operators take these unless they say otherwise.
DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16", "f32": "float32", "e4m3": "float8_e4m3fn"}
MORE_DTYPES: Final = {"e5m2": "float8_e5m2", "int32": "int32", "int8": "int8", "uint8": "uint8"}
TOKENS: Final = DTYPES | MORE_DTYPES
ACCUMULATORS: Final = {"fp32": "float32"}
INTEGER_ACCUMULATORS: Final = {"int32": "int32"}  # of integer inputs alone

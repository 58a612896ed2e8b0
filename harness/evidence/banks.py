"""Bank conflicts, where the generated source shows the address: a warp's accesses to shared memory, worked out by lane.

An address is worked out where it hangs on ``threadIdx.x`` and on what all lanes share (loop counters, taken as 0). What
is not visible here: accesses by TMA and WGMMA, whose addresses the hardware makes, and those of inlined templates.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

BANKS: Final = 32
BANK_BYTES: Final = 4
WARP: Final = 32
# A contestant wrote the source: what reading it may cost has bounds.
MOST_CHARACTERS: Final = 1 << 20
MOST_ACCESSES: Final = 5000
LONGEST: Final = 4000  # characters of one address

_KERNEL: Final = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\([^;{]{0,4000}\{")
_SHARED: Final = re.compile(
    r"__shared__\s+(?:__align__\(\d+\)\s*)?(\w+)\s+(\w+)\[|(void)\*\s*(\w+)\s*=\s*\(\(void\*\)\(\(char\*\)buf_dyn_shmem"
)
_ACCESS: Final = re.compile(r"(?:\(\((\w+)\*\)(\w+)\)|\b(\w+))(?:\[| \+ )(?=\()")
_VECTOR: Final = re.compile(r"\*\((\w+)\*\)\($")
_MATRIX: Final = re.compile(r"(?:ldmatrix|stmatrix)\w*\(\s*(?:\w+,\s*)?\(?&\($")
_COPY: Final = re.compile(r"cp_async_gs(?:_conditional)?<(\d+)>\(\s*\(?&\($")
_ELEMENT_BYTES: Final = {
    "bfloat16_t": 2,
    "half_t": 2,
    "float": 4,
    "int": 4,
    "uint": 4,
    "signed char": 1,
    "uchar": 1,
    "fp8_e4_t": 1,
    "fp8_e5_t": 1,
}
_VECTOR_BYTES: Final = {"uint1": 4, "uint2": 8, "uint4": 16, "float2": 8, "float4": 16, "int2": 8, "int4": 16}
_ALLOWED: Final = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant, ast.Name, ast.Load, ast.USub),
    *(ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.RShift, ast.LShift, ast.BitAnd, ast.BitOr, ast.BitXor),
    *(ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq),
)


def conflicts(source: str) -> dict[str, tuple[str, ...]]:
    """Per kernel, the accesses of the generated source that conflict, in words."""
    source = source[:MOST_CHARACTERS]
    starts = list(_KERNEL.finditer(source))
    ends = [*(match.start() for match in starts), len(source)][1:]
    return {match[1]: tuple(_in_kernel(source[match.end() : end])) for match, end in zip(starts, ends, strict=True)}


def degree(addresses: list[int], width_bytes: int) -> int:
    """How many times a bank is asked for different words at once, at worst: 1 is free of conflicts.

    A warp's accesses of 4 bytes go together, those of 8 in halves, those of 16 in quarters (CUDA C++ Programming
    Guide, "Shared Memory" of compute capability 5.x and later; lanes that read the same word do not conflict).
    """
    together = WARP * BANK_BYTES // max(width_bytes, BANK_BYTES)
    worst = 1
    for first in range(0, len(addresses), together):
        words: dict[int, set[int]] = defaultdict(set)
        for address in addresses[first : first + together]:
            for word in range(address // BANK_BYTES, -(-(address + width_bytes) // BANK_BYTES)):
                words[word % BANKS].add(word)
        worst = max(worst, *(len(each) for each in words.values()))
    return worst


def _in_kernel(body: str) -> Iterator[str]:
    shared = {match[2] or match[4]: match[1] or match[3] for match in _SHARED.finditer(body)}
    found: Counter[tuple[str, int, int]] = Counter()
    for match in islice(_ACCESS.finditer(body), MOST_ACCESSES):
        name = match[2] or match[3]
        element = match[1] or shared.get(name, "")
        before = body[max(0, match.start() - 80) : match.start()]
        address = _balanced(body, match.end())
        if name not in shared or element not in _ELEMENT_BYTES or address is None or "threadIdx.x" not in address:
            continue
        width_bytes = _width(before, _ELEMENT_BYTES[element])
        lanes = _lanes(address)
        if lanes is None or width_bytes is None:
            continue
        ways = degree([lane * _ELEMENT_BYTES[element] for lane in lanes], width_bytes)
        if ways > 1:
            found[name, width_bytes, ways] += 1
    for (name, width_bytes, ways), places in sorted(found.items(), key=lambda item: -item[0][2]):
        where = f"{places} places" if places > 1 else "one place"
        yield f"{ways}-way, in {name}, {width_bytes} bytes a thread, {where} in the generated source"


def _width(before: str, element_bytes: int) -> int | None:
    """Bytes that one lane takes at once, from what stands before the address."""
    if vector := _VECTOR.search(before):
        return _VECTOR_BYTES.get(vector[1])
    if _MATRIX.search(before):
        return 16  # a row of eight 16-bit numbers a lane, eight lanes at a time
    if copy := _COPY.search(before):
        return int(copy[1])
    return None if before.endswith("&(") else element_bytes


def _balanced(text: str, start: int) -> str | None:
    """The parenthesised expression that begins at ``start``."""
    depth = 0
    for position in range(start, min(len(text), start + LONGEST)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return text[start : position + 1]
    return None


def _lanes(address: str) -> list[int] | None:
    """The address of each lane of a warp, in elements; None where it hangs on more than can be seen."""
    expression = re.sub(r"\(\(int\)threadIdx\.x\)", "lane", address).replace("/", "//")
    try:
        tree = ast.parse(expression, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not all(isinstance(node, _ALLOWED) for node in ast.walk(tree)):
        return None
    if any(isinstance(node, ast.Constant) and not isinstance(node.value, int) for node in ast.walk(tree)):
        return None
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    try:
        return [_value(tree.body, dict.fromkeys(names, 0) | {"lane": lane}) for lane in range(WARP)]
    except (ZeroDivisionError, ValueError, OverflowError, RecursionError):
        return None


_OPERATORS: Final[dict[type[ast.AST], Callable[[int, int], int]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.RShift: lambda a, b: a >> b,
    ast.LShift: lambda a, b: a << min(b, 64),
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
    ast.BitXor: lambda a, b: a ^ b,
    ast.Lt: lambda a, b: int(a < b),
    ast.LtE: lambda a, b: int(a <= b),
    ast.Gt: lambda a, b: int(a > b),
    ast.GtE: lambda a, b: int(a >= b),
    ast.Eq: lambda a, b: int(a == b),
    ast.NotEq: lambda a, b: int(a != b),
}


def _value(node: ast.expr, names: dict[str, int]) -> int:
    """Worked out here, not by ``eval``: the source comes from a contestant."""
    if isinstance(node, ast.Constant):
        return int(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.UnaryOp):
        return -_value(node.operand, names)
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _OPERATORS[type(node.ops[0])](_value(node.left, names), _value(node.comparators[0], names))
    raise ValueError(f"an address of {type(node).__name__}")

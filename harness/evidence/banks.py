"""Bank conflicts of a warp's accesses to shared memory, from the addresses in the generated source.

An address counts if it depends on ``threadIdx.x`` and on values that all lanes share, such as loop counters, taken as
0. Accesses by TMA, by WGMMA and inside inlined templates are not visible here.
"""

import ast
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from harness.judge.facts.architectures import WARP

BANKS: Final = 32
BANK_BYTES: Final = 4
# A contestant wrote the source, so the cost of reading it is bounded.
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
    **dict.fromkeys(("signed char", "uchar", "fp8_e4_t", "fp8_e5_t"), 1),
    **dict.fromkeys(("bfloat16_t", "half_t"), 2),
    **dict.fromkeys(("float", "int", "uint"), 4),
}
_VECTOR_BYTES: Final = {"uint1": 4, "uint2": 8, "uint4": 16, "float2": 8, "float4": 16, "int2": 8, "int4": 16}


def conflicts(source: str) -> dict[str, tuple[str, ...]]:
    """The conflicting accesses of each kernel in a generated source, in words."""
    source = source[:MOST_CHARACTERS]
    starts = list(_KERNEL.finditer(source))
    ends = [*(match.start() for match in starts), len(source)][1:]
    return {match[1]: tuple(_in_kernel(source[match.end() : end])) for match, end in zip(starts, ends, strict=True)}


def degree(addresses: list[int], width_bytes: int) -> int:
    """The most words that one bank must serve at once; 1 is free of conflicts.

    A warp accesses 4 bytes per lane at once, 8 bytes in halves and 16 bytes in quarters. Lanes that read the same word
    do not conflict (CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x and later).
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
    ends = _ends(body)
    for match in islice(_ACCESS.finditer(body), MOST_ACCESSES):
        name = match[2] or match[3]
        element = match[1] or shared.get(name, "")
        before = body[max(0, match.start() - 80) : match.start()]
        address = body[match.end() : ends.get(match.end(), match.end())]
        if name not in shared or element not in _ELEMENT_BYTES or "threadIdx.x" not in address:
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
    """Bytes of one lane's access, by the text before the address."""
    if vector := _VECTOR.search(before):
        return _VECTOR_BYTES.get(vector[1])
    if _MATRIX.search(before):
        return 16  # a row of eight 16-bit numbers a lane, eight lanes at a time
    if copy := _COPY.search(before):
        return int(copy[1])
    return None if before.endswith("&(") else element_bytes


def _ends(text: str) -> dict[int, int]:
    """Where each parenthesised expression ends, by where it begins."""
    found: dict[int, int] = {}
    begun: list[int] = []
    for match in re.finditer(r"[()]", text):
        if match[0] == "(":
            begun.append(match.start())
        elif begun and (start := begun.pop()) > match.start() - LONGEST:
            found[start] = match.end()
    return found


def _lanes(address: str) -> list[int] | None:
    """The address of each lane of a warp, in elements; None if it depends on unknown values."""
    expression = re.sub(r"\(\(int\)threadIdx\.x\)", "lane", address).replace("/", "//")
    try:
        tree = ast.parse(expression, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    try:
        return [_value(tree.body, dict.fromkeys(names, 0) | {"lane": lane}) for lane in range(WARP)]
    except (ArithmeticError, LookupError, ValueError, RecursionError):
        return None


_OPERATORS: Final[dict[type[ast.AST], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.RShift: operator.rshift,
    ast.LShift: lambda a, b: a << min(b, 64),
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def _value(node: ast.expr, names: dict[str, int]) -> int:
    """The value of an expression, without ``eval``: the source comes from a contestant."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, names)
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return int(_OPERATORS[type(node.ops[0])](_value(node.left, names), _value(node.comparators[0], names)))
    raise ValueError(f"an address of {type(node).__name__}")

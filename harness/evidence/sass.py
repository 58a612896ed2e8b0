"""SASS: the instructions of a cubin, counted in its disassembly."""

import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ANSWER_S: Final = 60.0
_FUNCTION: Final = re.compile(r"^[ \t]*Function : (\S+)", re.MULTILINE)
_INSTRUCTION: Final = re.compile(
    r"^[ \t]+/\*[0-9a-f]{4,}\*/[ \t]+(?:@!?U?P\w+[ \t]+)?([A-Z][\w.]*)([^;\n]*);", re.MULTILINE
)
_TENSOR: Final = re.compile(r"(?:[HQIBDO]G?MMA|UTC\w*MMA)\b")  # mma.sync, wgmma, tcgen05
_WARP_GROUP: Final = re.compile(r"[HQIB]GMMA\.(\d+)x(\d+)x(\d+)\b")
_A_IN_REGISTERS: Final = re.compile(r"\s*R\d+,\s*R\d+,")


@dataclass(frozen=True, slots=True)
class WarpGroupMma:
    """The shape of a WGMMA, D[m,n] += A[m,k] · B[k,n]; A is in registers or in shared memory."""

    m: int
    n: int
    k: int
    a_in_registers: bool


@dataclass(frozen=True, slots=True)
class Code:
    """Instructions of one kernel; each counts once, however often it runs.

    ``tensor`` counts tensor core instructions by mnemonic, such as ``HGMMA.64x256x16.F32.BF16``.
    """

    instructions: int = 0
    tensor: dict[str, int] = field(default_factory=dict)
    warp_group: frozenset[WarpGroupMma] = frozenset()
    opcodes: Counter[str] = field(default_factory=Counter)

    def count(self, *opcodes: str) -> int:
        return sum(self.opcodes[each] for each in opcodes)


def disassemble(cuobjdump: Path, cubin: bytes) -> str | None:
    """The text of a cubin's code; None if the tool fails."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(cuobjdump), "--dump-sass", file.name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S, check=False)
        except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
            return None
    return done.stdout if done.returncode == 0 else None


def read(text: str) -> dict[str, Code]:
    """The instructions of each kernel in a disassembly."""
    parts = _FUNCTION.split(text)
    return {name: _code(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def _code(body: str) -> Code:
    tensor: Counter[str] = Counter()
    opcodes: Counter[str] = Counter()
    shapes: set[WarpGroupMma] = set()
    for mnemonic, operands in _INSTRUCTION.findall(body):
        opcodes[mnemonic.partition(".")[0]] += 1
        if _TENSOR.match(mnemonic):
            tensor[mnemonic] += 1
        if shape := _WARP_GROUP.match(mnemonic):
            m, n, k = map(int, shape.groups())
            shapes.add(WarpGroupMma(m, n, k, _A_IN_REGISTERS.match(operands) is not None))
    return Code(sum(opcodes.values()), dict(tensor.most_common()), frozenset(shapes), opcodes)

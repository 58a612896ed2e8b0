"""Classes of SASS instructions, so that a changed kernel can be told in a few words."""

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Final

OTHER: Final = "other"
# The first that matches counts (CUDA Binary Utilities, "Instruction Set Reference").
CLASSES: Final = {
    "tensor": r"[HQIBDO]G?MMA|UTC\w*MMA",
    "TMA": r"UTMA\w+|UBLK\w+",
    "async copy": r"LDGSTS",
    "barrier": r"BAR|SYNCS|WARPSYNC|WARPGROUP|\w*DEPBAR|MEMBAR|FENCE|ERRBAR|UCGABAR\w*|ARRIVES|ELECT|NANOSLEEP|CCTL\w*",
    "shared": r"U?LDS|U?STS|LDSM|STSM|ATOMS|STAS|REDAS",
    "local": r"LDL|STL",
    "global": r"LDG|STG|LD|ST|ATOM|ATOMG|RED|REDG",
    "constant": r"U?LDC|LDCU",
    "float": r"U?[FHD](ADD|MUL|FMA|SETP?|MNMX|SEL|CHK|SWZADD|RND)\w*|MUFU|U?[FI]2[FI]\w*|U?F2FP|U?I2FP",
    "integer": r"U?I(ADD|MAD|MNMX|SETP|ABS|MUL|DP)\w*|U?(LEA|LOP3|PLOP3|SHF|SHL|SHR|SGXT|BMSK|POPC|FLO|BREV)|U?VI\w+",
    "move": r"U?MOV\w*|U?SEL|SHFL|U?PRMT|R2UR|S2U?R|CS2R|R2P|P2R|UP2UR|VOTE\w*|UVOTE\w*|REDUX|R2B|B2R|R2UR",
    "control": r"BRA|BRX\w*|JMP|EXIT|CALL|RET|BSSY|BSYNC|BREAK|NOP|YIELD|KILL|BPT|USETMAXREG|PREEXIT|ACQBULK|BMOV",
}


def classes(opcodes: Mapping[str, int]) -> dict[str, int]:
    """How many instructions of each class, in the order of the classes."""
    counts: Counter[str] = Counter()
    for opcode, count in opcodes.items():
        counts[class_of(opcode)] += count
    return {name: counts[name] for name in (*CLASSES, OTHER) if counts[name]}


@cache
def class_of(opcode: str) -> str:
    return next((name for name, pattern in CLASSES.items() if re.fullmatch(pattern, opcode)), OTHER)

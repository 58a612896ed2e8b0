"""What is published of a leaderboard: per problem the kernel that beats the library, or that none does."""

from pathlib import Path
from typing import Any

import msgspec

from harness.errors import InfrastructureError


class Winner(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A family, by its dotted name, with its levers; ``pass_configs`` and ``compile_flags`` go to the compiler.

    ``ratio`` is the library's time over its own, ``low`` and ``high`` the 95% interval, as ``record`` holds them.
    """

    family: str
    levers: dict[str, Any]
    ratio: float
    low: float
    high: float
    iteration: str
    record: str
    device: str
    torch: str
    tilelang: str
    pass_configs: dict[str, Any] = {}
    compile_flags: tuple[str, ...] = ()


class Publication(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file, by shape key: the winners, and why the library is called for the others that were measured."""

    gpu: str
    winners: dict[str, Winner] = {}
    library: dict[str, str] = {}


def place(root: Path, gpu: str) -> Path:
    """Where the front of ``kernels/`` looks for it."""
    return root / "kernels" / "pinned" / f"{gpu}.json"


def encode(publication: Publication) -> bytes:
    return msgspec.json.format(msgspec.json.encode(publication), indent=2) + b"\n"


def read(path: Path) -> Publication:
    """Raises InfrastructureError where the file cannot be read or is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Publication)
    except (OSError, msgspec.MsgspecError) as error:
        raise InfrastructureError(f"{path}: the published winners cannot be read: {error}") from error

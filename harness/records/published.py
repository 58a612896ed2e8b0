"""Published winners: per problem the kernel that beats the library, or why none does."""

from pathlib import Path
from typing import Any

import msgspec

from harness.errors import InfrastructureError


class Winner(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A family by its dotted name, and its levers; ``pass_configs`` and ``compile_flags`` go to the compiler.

    ``ratio`` is the library's time over the kernel's, with its 95% interval, as in the record ``record``. For a winner
    at the power limit all four are of that regime.
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
    """The winners by shape key, and for other measured problems why the library is called.

    ``sustained`` holds only the problems that the power limit decides differently: the winner there, or why the library
    is called.
    """

    gpu: str
    winners: dict[str, Winner] = {}
    library: dict[str, str] = {}
    sustained: dict[str, Winner | str] = {}


def place(root: Path, gpu: str) -> Path:
    """The file that the front of ``kernels/`` reads."""
    return root / "kernels" / "pinned" / f"{gpu}.json"


def encode(publication: Publication) -> bytes:
    return msgspec.json.format(msgspec.json.encode(publication), indent=2) + b"\n"


def read(path: Path) -> Publication:
    """Raises InfrastructureError if the file cannot be read or parsed."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Publication)
    except (OSError, msgspec.MsgspecError) as error:
        raise InfrastructureError(f"{path}: the published winners cannot be read: {error}") from error

"""A repository's settings: its file ``tilebench.toml``, which marks its root."""

from pathlib import Path

import msgspec

from harness import __version__
from harness.machine.repository import SETTINGS
from harness.machine.toml import decode, line_of, wrong


class RepositorySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``requires`` says which versions of tilebench fit, such as ``>=0.1,<0.2``."""

    requires: str = ""


def check_settings(root: Path) -> None:
    """Raise UsageError, with file and line, for settings that are wrong or that ask for another tilebench."""
    path = root / SETTINGS
    required = decode(path, RepositorySettings).requires if path.is_file() else ""
    if not required:
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # here: the doctor must start without packages

    try:
        fits = SpecifierSet(required).contains(__version__, prereleases=True)
    except InvalidSpecifier:
        raise wrong(path, line_of(path, "requires"), f"'{required}' names no versions, as >=0.1 does") from None
    if not fits:
        raise wrong(path, line_of(path, "requires"), f"tilebench {required} is required, and this is {__version__}")

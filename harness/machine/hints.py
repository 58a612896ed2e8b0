"""Commands that a message may name: safe to run as printed, in the environment of this program."""

import sys
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]


def pip_install(requirement: str) -> str:
    """Install one distribution, by the name and version that a pin gives it."""
    return f"{sys.executable} -m pip install '{requirement}'"


def pip_install_here(extra: str = "") -> str:
    """Install this checkout anew, with an extra: by its name alone, pip would take another project."""
    return f"{sys.executable} -m pip install --editable '{CHECKOUT}{f'[{extra}]' if extra else ''}'"

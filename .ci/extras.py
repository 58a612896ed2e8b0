"""Print the pins of the extras of pyproject.toml with a name that begins so; for the Dockerfile."""

import sys
import tomllib
from pathlib import Path

EXTRAS = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
print("\n".join(dict.fromkeys(pin for name, pins in EXTRAS.items() if name.startswith(sys.argv[1]) for pin in pins)))

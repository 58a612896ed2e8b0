"""What numbers and paths an option takes; cyclopts refuses others where it reads a command line."""

import math
from pathlib import Path
from typing import Final

from cyclopts import Parameter, validators

from harness.errors import UsageError


def _exists(_: object, path: Path) -> None:
    if not path.exists():
        raise UsageError(f"{path} is neither a file nor a folder")


EXISTING: Final = Parameter(validator=_exists)

NUMBER: Final = Parameter(validator=validators.Number(gte=0, lt=math.inf))
POSITIVE: Final = Parameter(validator=validators.Number(gt=0, lt=math.inf))
AT_LEAST_1: Final = Parameter(validator=validators.Number(gte=1, lt=math.inf))
AT_LEAST_2: Final = Parameter(validator=validators.Number(gte=2))
BELOW_1: Final = Parameter(validator=validators.Number(gte=0, lt=1))
SHARE: Final = Parameter(validator=validators.Number(gte=0, lte=1))

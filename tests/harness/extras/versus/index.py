"""Small wheels of a package that the running environment has, tabulate."""

import zipfile
from pathlib import Path


def wheel(folder: Path, version: str, requires_python: str = ">=3.8") -> Path:
    """A release of tabulate that says its version."""
    info = f"tabulate-{version}.dist-info"
    file = folder / f"tabulate-{version}-py3-none-any.whl"
    needs = f"Requires-Python: {requires_python}\n"
    with zipfile.ZipFile(file, "w") as held:
        held.writestr("tabulate/__init__.py", f"__version__ = '{version}'\n")
        held.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tabulate\nVersion: {version}\n{needs}")
        held.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        held.writestr(f"{info}/RECORD", "")
    return file

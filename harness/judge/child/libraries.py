"""The CUDA libraries that this process has loaded, with the versions that they give of themselves."""

import ctypes
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

MAPS: Final = Path("/proc/self/maps")
PARTS: Final = range(3)  # of libraryPropertyType: major, minor, patch


def loaded() -> dict[str, str]:
    """Versions by the names of Environment's fields; a library that is not loaded is absent."""
    versions = {}
    for name, (file, ask) in _LIBRARIES.items():
        with suppress(OSError, AttributeError):  # no such library here, or it does not know the function
            versions[name] = ".".join(map(str, ask(ctypes.CDLL(_path(file)))))
    return versions


def _path(file: str) -> str:
    """Where a library was loaded from. Raises OSError if it was not."""
    found = re.search(rf"\s(/\S*/{file}\.so[.0-9]*)$", MAPS.read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"{file} is not loaded")
    return found[1]


def _property(function: str) -> Callable[[ctypes.CDLL], Iterator[int]]:
    """Ask a function of the form ``status get(libraryPropertyType, int *)``, as cuBLAS and cuDNN have it."""

    def ask(library: ctypes.CDLL) -> Iterator[int]:
        value = ctypes.c_int()
        for part in PARTS:
            if getattr(library, function)(part, ctypes.byref(value)) != 0:
                raise OSError(f"{function} failed")
            yield value.value

    return ask


def _nvrtc(library: ctypes.CDLL) -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    if library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) != 0:
        raise OSError("nvrtcVersion failed")
    return major.value, minor.value


_LIBRARIES: Final = {
    "cublas": ("libcublas", _property("cublasGetProperty")),
    "cublaslt": ("libcublasLt", _property("cublasLtGetProperty")),
    "cudnn": ("libcudnn", _property("cudnnGetProperty")),
    "nvrtc": ("libnvrtc", _nvrtc),
}

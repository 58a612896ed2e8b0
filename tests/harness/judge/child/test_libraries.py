"""Versions as the loaded libraries give them, in a process that loads stand-ins of the same names."""

import subprocess
import sys
from pathlib import Path

from tests.harness.checkout import ROOT

SOURCE = """
int {prefix}GetProperty(int part, int *value) {{ *value = (part + 1) * {factor}; return 0; }}
int nvrtcVersion(int *major, int *minor) {{ *major = 13; *minor = 4; return 0; }}
"""
ASK = """
import ctypes, sys
for path in sys.argv[1:]:
    ctypes.CDLL(path)
from harness.judge.child.libraries import loaded
print(loaded())
"""


def stand_in(folder: Path, file: str, prefix: str, factor: int) -> Path:
    path = folder / file
    source = folder / f"{prefix}.c"
    source.write_text(SOURCE.format(prefix=prefix, factor=factor))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    return path


def asked(*paths: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ASK, *map(str, paths)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_each_loaded_library_says_its_version(tmp_path: Path) -> None:
    paths = [
        stand_in(tmp_path, "libcublas.so.13", "cublas", 1),
        stand_in(tmp_path, "libcublasLt.so.13", "cublasLt", 2),
        stand_in(tmp_path, "libcudnn.so.9", "cudnn", 3),
        stand_in(tmp_path, "libnvrtc.so.13", "nvrtc", 4),
    ]
    versions = {"cublas": "1.2.3", "cublaslt": "2.4.6", "cudnn": "3.6.9", "nvrtc": "13.4"}
    assert asked(*paths) == str(versions)
    assert asked(paths[2]) == str({"cudnn": "3.6.9"})


def test_what_is_not_loaded_or_does_not_answer_is_absent(tmp_path: Path) -> None:
    assert asked() == "{}"
    assert asked(stand_in(tmp_path, "libcublas.so.13", "other", 1)) == "{}"

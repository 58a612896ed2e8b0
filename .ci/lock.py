"""Write both locks from pip's report of an installation: `lock.py REPORT`, in the folder of the locks.

What only torch's CUDA build and the extras need, CUDA's libraries and tools and triton, goes into
requirements-cuda.lock, all else into requirements.lock. The comments at the top of each file stay. Each pin has the
hashes of the files that Linux may install for Python 3.11 and newer; uv lists them without downloading any.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

PROJECT = "tilebench-harness"
CUDA = re.compile(r"cuda-|nvidia-|triton")
WHEEL = re.compile(r"-(?P<python>[^-]+)-(?P<abi>[^-]+)-(?P<platform>[^-]+)\.whl$")
PYTHON = re.compile(r"py3|cp31[1-9]")
ABI = re.compile(r"none|abi3|cp31[1-9]")  # no free-threaded ones, such as cp313t
PLATFORM = re.compile(r"any|(many)?linux\w*_(x86_64|aarch64)")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    packages = [each["metadata"] for each in json.loads(Path(sys.argv[1]).read_bytes())["install"]]
    by_name = {normal(package["name"]): package for package in packages}
    needed: set[str] = set()
    waiting = [PROJECT]
    while waiting:
        name = waiting.pop()
        needed.add(name)
        for line in by_name[name].get("requires_dist", ()):
            other = normal(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0])
            for_cuda = CUDA.match(other) and (name == "torch" or "extra ==" in line)
            optional = "extra ==" in line and name != PROJECT
            if other in by_name and other not in needed and not for_cuda and not optional:
                waiting.append(other)
    write("requirements.lock", [by_name[name] for name in needed - {PROJECT}])
    write("requirements-cuda.lock", [by_name[name] for name in by_name.keys() - needed])


def write(file: str, packages: list[dict[str, str]]) -> None:
    comments = [line for line in Path(file).read_text().splitlines() if line.startswith("#")]
    pins = {each["name"]: each["version"].partition("+")[0] for each in packages}
    hashes = hashes_of(pins)
    lines = []
    for name in sorted(pins, key=str.lower):
        lines += [f"{name}=={pins[name]} \\", *(f"    --hash=sha256:{each} \\" for each in hashes[normal(name)])]
        lines[-1] = lines[-1].removesuffix(" \\")
    Path(file).write_text("\n".join([*comments, *lines, ""]))


def hashes_of(pins: dict[str, str]) -> dict[str, list[str]]:
    """The hashes of each pin's wheels, or of its source where none fits; from the index that pip uses."""
    asked = "\n".join(f"{name}=={version}" for name, version in pins.items())
    names = {"UV_DEFAULT_INDEX": "PIP_INDEX_URL", "SSL_CERT_FILE": "PIP_CERT"}  # uv's name of what pip calls so
    settings = {theirs: os.environ[ours] for theirs, ours in names.items() if os.environ.get(ours)}
    options = ("--quiet", "--universal", "--no-deps", "--python-version=3.11", "--format=pylock.toml")
    told = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "compile", *options, "-"],
        input=asked,
        env=settings | os.environ,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    packages = tomllib.loads(told.stdout)["packages"]
    return {normal(each["name"]): sorted({file["hashes"]["sha256"] for file in fitting(each)}) for each in packages}


def fitting(package: dict[str, Any]) -> list[dict[str, Any]]:
    wheels = [each for each in package.get("wheels", ()) if fits(each["url"])]
    return wheels or [package["sdist"]]


def fits(url: str) -> bool:
    match = WHEEL.search(url)
    if match is None:
        return False
    wanted = {"python": PYTHON, "abi": ABI, "platform": PLATFORM}
    fitting_parts = {part: any(map(pattern.fullmatch, match[part].split("."))) for part, pattern in wanted.items()}
    stable = match["abi"] == "abi3"  # works in every later Python
    return (fitting_parts["python"] or stable) and fitting_parts["abi"] and fitting_parts["platform"]


if __name__ == "__main__":
    main()

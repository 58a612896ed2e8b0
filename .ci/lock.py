"""Write both locks from pip's report of an installation: `lock.py REPORT`, in the folder of the locks.

What only torch's CUDA build and the extras need, CUDA's libraries and tools and triton, goes into
requirements-cuda.lock, all else into requirements.lock. The comments at the top of each file stay.
"""

import json
import re
import sys
from pathlib import Path

PROJECT = "tilebench"
CUDA = re.compile(r"cuda-|nvidia-|triton")


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
    packages.sort(key=lambda each: each["name"].lower())
    pins = [f"{each['name']}=={each['version'].partition('+')[0]}" for each in packages]
    Path(file).write_text("\n".join([*comments, *pins, ""]))


main()

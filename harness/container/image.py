"""The image: built from the checkout's Dockerfile, and known again by the pins that it was built from."""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from docker import DockerClient
from docker.errors import APIError, ImageNotFound
from docker.models.images import Image

from harness.container.engine import explain
from harness.errors import InfrastructureError
from harness.machine.progress import Reporter

NAME: Final = "tilebench"
LABEL: Final = "tilebench.pins"
PINNED: Final = ("Dockerfile", "requirements.lock", "requirements-cuda.lock")
# What pip and apt need to reach their packages on this machine, and the image too.
INHERITED: Final = (
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip
SAID_LINES: Final = 3  # of a step that failed


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to build: on which base (the Dockerfile's where None), with the CUDA packages, by which network."""

    root: Path
    name: str = NAME
    base: str | None = None
    cuda: bool = True
    network: str | None = None

    def arguments(self) -> dict[str, str]:
        """The build's arguments."""
        inherited = {name: os.environ[name] for name in INHERITED if _reaches(os.environ.get(name, ""))}
        own = {"PINS": pins_sha256(self.root), "CUDA": "1" if self.cuda else "0"}
        return inherited | own | ({"BASE_IMAGE": self.base} if self.base else {})

    def steps(self) -> int:
        """How many steps the Dockerfile has."""
        lines = (self.root / "Dockerfile").read_text(encoding="utf-8")
        return len(re.findall(r"^[A-Z]+ ", lines, re.MULTILINE))


def pins_sha256(root: Path) -> str:
    """Hash of all that decides what is installed in the image; the checkout's code is mounted over the image's own."""
    digest = hashlib.sha256()
    for name in PINNED:
        content = (root / name).read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def build(client: DockerClient, recipe: Recipe, reporter: Reporter) -> Image:
    """Build the image; a step that fails is named with the end of what it said."""
    step, said = "", [""]
    stream = client.api.build(
        path=str(recipe.root),
        tag=recipe.name,
        buildargs=recipe.arguments(),
        network_mode=recipe.network,
        rm=True,
        forcerm=True,
        decode=True,
    )
    for event in stream:
        for line in _text(event).splitlines():
            if re.match(r"Step [0-9]+/[0-9]+ : ", line):
                if step:
                    reporter.finished(step)
                step, said = line.partition(" : ")[2][:100], []
            elif line.strip():
                said.append(line.strip())
            reporter.doing(f"{step}: {line.strip()[:60]}" if line.strip() else step)
        if "error" in event:
            raise InfrastructureError(_failed(step, said, str(event["error"])))
    reporter.finished(step)
    return client.images.get(recipe.name)


def find(client: DockerClient, name: str) -> Image:
    """An image that is here already; raises InfrastructureError where none of that name is."""
    try:
        return client.images.get(name)
    except ImageNotFound:
        raise InfrastructureError(f"no image '{name}' here: make image builds one, docker images lists those") from None


def fitting(client: DockerClient, root: Path, name: str = NAME) -> Image | None:
    """The image built from this checkout's pins, or by `docker build`, which does not say from which."""
    try:
        image = client.images.get(name)
    except ImageNotFound:
        return None
    return image if image.labels.get(LABEL) in (pins_sha256(root), "unknown") else None


def variable(image: Image, name: str) -> str | None:
    """An environment variable that the image sets."""
    set_there: list[str] = image.attrs["Config"].get("Env") or []
    return next((each.partition("=")[2] for each in set_there if each.startswith(f"{name}=")), None)


def _reaches(value: str) -> bool:
    """Whether a setting can mean something in the image too: a folder of this machine does not."""
    return bool(value) and not value.startswith(("/", "file:"))


def _text(event: dict[str, Any]) -> str:
    if "stream" in event:
        return str(event["stream"])
    return f"{event.get('status', '')} {event.get('progress', '')}".strip()


def _failed(step: str, said: list[str], error: str) -> str:
    """One line for a build that ended."""
    known = explain(APIError(error, explanation=" ".join([*said, error])))
    if not known.startswith("Docker: "):
        return known
    # apt and pip say what is wrong in a line that begins so, and much else after it
    wrong = [line for line in said if re.match(r"(E|ERROR|Error|error):", line)] or said[-SAID_LINES:]
    return f"the image could not be built: {step}: {' '.join(wrong[:SAID_LINES]) or error}"

"""The image: built from the checkout's Dockerfile, and identified by the hash of its pins."""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from docker import DockerClient
from docker.errors import APIError, ImageNotFound
from docker.models.images import Image

from harness.container.engine import IMAGE_GB, NO_ROOM, check_driver, explain, free_gb
from harness.errors import InfrastructureError, UsageError
from harness.machine.nvml import Device
from harness.machine.progress import Reporter
from harness.machine.repository import code

NAME: Final = "tilebench"
LABEL: Final = "tilebench.pins"
PINNED: Final = ("Dockerfile", "requirements.lock", "requirements-cuda.lock")
# pip and apt need these to reach their packages, on this machine and in the image.
INHERITED: Final = (
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip
SAID_LINES: Final = 3  # of a failed step's output
COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")  # the builder's around stderr; alone in a line it hid a line of text


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to build: the base (None: the Dockerfile's), the CUDA packages, the network."""

    root: Path
    name: str = NAME
    base: str | None = None
    cuda: bool = True
    network: str | None = None

    def arguments(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in INHERITED if _reaches(os.environ.get(name, ""))}
        own = {"PINS": pins_sha256(self.root), "CUDA": "1" if self.cuda else "0"}
        return inherited | own | ({"BASE_IMAGE": self.base, "SNAPSHOT": ""} if self.base else {})

    def base_cuda(self) -> str | None:
        """The CUDA release of the Dockerfile's base; None if another base is named."""
        match = re.search(r"^ARG BASE_IMAGE=\S*/cuda:([0-9.]+)-", self._text(), re.MULTILINE)
        return match[1] if match and self.base is None else None

    def steps(self) -> int:
        return len(re.findall(r"^[A-Z]+ ", self._text(), re.MULTILINE))

    def _text(self) -> str:
        return (self.root / "Dockerfile").read_text(encoding="utf-8")


def checkout(root: Path) -> Path:
    """The checkout that judges a repository, with its Dockerfile. Raises UsageError where it is a package alone."""
    if not (code(root) / "Dockerfile").is_file():
        advice = "name an image that a checkout has built with --image, or work from a checkout"
        raise UsageError(f"there is no Dockerfile in this installation; {advice}")
    return code(root)


def pins_sha256(root: Path) -> str:
    """Hash of the files that decide what the image holds; a checkout's code is mounted over the image's own."""
    digest = hashlib.sha256()
    for name in PINNED:
        content = (root / name).read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def check_machine(client: DockerClient, recipe: Recipe, device: Device | None) -> None:
    """Raise InfrastructureError if the driver or the disk will not do, before anything is downloaded."""
    if device is not None:
        check_driver(recipe.base_cuda(), device.driver)
    free = free_gb(client.info())
    if recipe.cuda and recipe.base is None and free is not None and free < IMAGE_GB:
        raise InfrastructureError(f"{free:.0f} GB are free: {NO_ROOM}")


def build(client: DockerClient, recipe: Recipe, reporter: Reporter) -> Image:
    """Build the image. Raises InfrastructureError with the failed step and the end of its output."""
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
        for line in COLOUR.sub("", _text(event)).splitlines():
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
    """A local image. Raises InfrastructureError if there is none of that name."""
    try:
        return client.images.get(name)
    except ImageNotFound:
        raise InfrastructureError(f"no image '{name}' here: make image builds one, docker images lists those") from None


def fitting(client: DockerClient, root: Path, name: str = NAME) -> Image | None:
    """The image of this checkout's pins, or of `docker build`, which does not tell its pins."""
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
    """Whether a setting is valid in the image too; a folder of this machine is not."""
    return bool(value) and not value.startswith(("/", "file:"))


def _text(event: dict[str, Any]) -> str:
    if "stream" in event:
        return str(event["stream"])
    return f"{event.get('status', '')} {event.get('progress', '')}".strip()


def _failed(step: str, said: list[str], error: str) -> str:
    known = explain(APIError(error, explanation=" ".join([*said, error])))
    if not known.startswith("Docker: "):
        return known
    # apt and pip begin the decisive line so, and write much more after it
    wrong = [line for line in said if re.match(r"(E|ERROR|Error|error):", line)] or said[-SAID_LINES:]
    return f"the image could not be built: {step}: {' '.join(wrong[:SAID_LINES]) or error}"

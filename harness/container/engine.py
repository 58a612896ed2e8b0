"""The Docker engine, by its SDK, and a one-line explanation of each failure."""

import os
import re
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import docker
import requests
from docker.errors import DockerException, ImageNotFound

from harness.catalog.gpus import LEAST_DRIVER
from harness.errors import InfrastructureError, explained

HOST: Final = "unix:///var/run/docker.sock"
ANSWER_S: Final = 120  # creating a container can take that long on a busy disk

NO_RUNTIME: Final = (
    "Docker has no NVIDIA runtime: install nvidia-container-toolkit, then sudo nvidia-ctk runtime configure "
    "--runtime=docker && sudo systemctl restart docker; without a GPU, the key 'cpu' works"
)
NO_DRIVER: Final = "no NVIDIA driver answers: nvidia-smi must work on this machine first; the key 'cpu' works"
IMAGE_GB: Final = 15  # unpacked, with the CUDA base
NO_ROOM: Final = (
    f"no room left on the disk of Docker's images: docker system prune frees some; the image takes {IMAGE_GB} GB"
)

# A complaint of the engine or of NVIDIA's runtime -> what to do.
COMPLAINTS: Final = (
    (r"could not select device driver|CDI device|vendor from CDI", NO_RUNTIME),
    (r"driver not loaded|libnvidia-ml\.so|driver rpc error", NO_DRIVER),
    (r"no space left on device", NO_ROOM),
)
TOO_OLD: Final = re.compile(r"unsatisfied condition: cuda\s*>=\s*([0-9]+)([0-9.]*)")


@contextmanager
def connected(answer_s: int = ANSWER_S) -> Iterator[docker.DockerClient]:
    """The engine of DOCKER_HOST, or else this machine's. Its errors become InfrastructureError."""
    host = os.environ.get("DOCKER_HOST") or HOST
    try:
        _knock(host, answer_s)
        client = docker.from_env(timeout=answer_s)
    except OSError as error:
        raise InfrastructureError(unreachable(host, error)) from error
    except DockerException as error:
        raise InfrastructureError(f"Docker at {host} cannot be used: {_line(error)}") from error
    try:
        yield client
    except (DockerException, requests.RequestException) as error:
        raise InfrastructureError(explain(error)) from error
    finally:
        client.close()


def unreachable(host: str, error: OSError) -> str:
    """Why the engine's socket does not answer."""
    if isinstance(error, PermissionError):
        return f"no permission on Docker's socket, {host}: sudo usermod -aG docker $USER, log in again, or use sudo"
    if isinstance(error, FileNotFoundError) and not any(map(shutil.which, ("docker", "dockerd"))):
        return "Docker is not installed: see deploy/vm.sh, or on Debian and Ubuntu sudo apt-get install docker.io"
    return f"no Docker daemon answers at {host} ({explained(error)}): sudo systemctl start docker, or set DOCKER_HOST"


def _knock(host: str, answer_s: int) -> None:
    """Raise the OSError of a socket without an answer: the SDK hides it, and leaves its own socket open."""
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as door:
            door.settimeout(answer_s)
            door.connect(host.removeprefix("unix://"))


def explain(error: BaseException) -> str:
    """What the engine refused, and what to do."""
    said = _line(error)
    older = TOO_OLD.search(said)
    if older:
        return too_old(int(older[1]), f"{older[1]}{older[2].rstrip('.')}")
    for pattern, advice in COMPLAINTS:
        if re.search(pattern, said, re.IGNORECASE):
            return advice
    if isinstance(error, ImageNotFound):
        return f"no such image: make image builds it ({said})"
    return f"Docker: {said}"


def too_old(cuda_major: int, cuda: str, found: str = "") -> str:
    """The complaint that the driver is too old for the image's CUDA."""
    least = LEAST_DRIVER.get(cuda_major)
    needed = f"driver {least} or newer" if least else "a newer driver"
    have = f", {found}," if found else ""
    return f"the NVIDIA driver{have} is older than the image's CUDA {cuda}, which needs {needed}: update the driver"


def check_driver(cuda: str | None, driver: str) -> None:
    """Raise InfrastructureError if a driver is too old for a CUDA release; None is that of no CUDA image."""
    major = int((cuda or "0").partition(".")[0])
    if cuda is not None and int(driver.partition(".")[0]) < LEAST_DRIVER.get(major, 0):
        raise InfrastructureError(too_old(major, cuda, driver))


def free_gb(info: Mapping[str, Any]) -> float | None:
    """Free space for images on this machine, from the engine's own description; None for another machine's engine."""
    folder = Path(info.get("DockerRootDir") or "/nowhere")
    return shutil.disk_usage(folder).free / 1e9 if folder.is_dir() else None


def _line(error: BaseException) -> str:
    text = getattr(error, "explanation", None) or str(error)
    return " ".join(str(text).split())

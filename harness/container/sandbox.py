"""The sandbox: one verb in its own container, as the caller, without network and almost without rights."""

import contextlib
import os
import re
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from docker import DockerClient
from docker.errors import APIError, NotFound
from docker.models.containers import Container
from docker.models.images import Image
from docker.types import DeviceRequest, Mount, Ulimit

from harness.catalog.gpus import VISIBLE, narrowed
from harness.container.engine import check_driver
from harness.container.image import variable
from harness.errors import ExitCode, InfrastructureError
from harness.machine.identity import lives, living
from harness.machine.nvml import Device
from harness.machine.repository import code
from harness.records.environment import IMAGE_VARIABLE

OWNER: Final = "tilebench.owner"
INSIDE: Final = "/tilebench"  # the checkout, in the container
REPOSITORY: Final = "/repository"  # another repository
PLAIN_USER: Final = 1000  # the image's own user, if the caller is root
PIDS: Final = 16384  # enough for compilers on all cores and torch's threads; stops a fork bomb
MEMORY_SHARE: Final = 0.9  # of the machine's memory
OPEN_FILES: Final = 16384
GRACE_S: Final = 15  # for a run to end after Ctrl-C
PROFILES: Final = "profile"

# Most drivers let only administrators read ncu's counters. Docker gives rights to root alone, so the container starts
# as root, with the rights to become the caller and to keep this one.
NCU_RIGHT: Final = "SYS_ADMIN"
CHANGING_RIGHTS: Final = ("SETGID", "SETPCAP", "SETUID")


@dataclass(frozen=True, slots=True)
class ContainerCommand:
    """The words after ``harness``, the checkout, and whether the container sees the GPUs."""

    root: Path
    words: tuple[str, ...]
    gpus: bool
    program: tuple[str, ...] = ("python3", "-m", "harness")

    @property
    def verb(self) -> str:
        return re.sub(r"[^a-zA-Z0-9_.-]", "-", self.words[0])


def run(client: DockerClient, image: Image, order: ContainerCommand, device: Device | None = None) -> ExitCode:
    """Run a verb in a new container, pass its output on, remove the container, and return the exit code.

    Ctrl-C stops the container, then raises KeyboardInterrupt. Raises InfrastructureError if the container cannot run.
    """
    if order.gpus and device is not None:
        check_driver(variable(image, "CUDA_VERSION"), device.driver)
    sweep(client)
    with _lent(order.root / "tuning") as (uid, gid):
        container = _create(client, settings(image, order, uid, gid, client.info()["MemTotal"]))
        try:
            with _attached(container) as output:
                container.start()
                _pass_on(output)
            return _outcome(container)
        except KeyboardInterrupt:
            _stop(container)
            raise
        finally:
            with contextlib.suppress(NotFound):
                container.remove(force=True)


def settings(image: Image, order: ContainerCommand, uid: int, gid: int, memory_bytes: int) -> dict[str, Any]:
    """The arguments of the container, with the least rights that the verb needs.

    Raises UsageError if CUDA_VISIBLE_DEVICES names no GPU.
    """
    chosen = narrowed() if order.gpus else None
    terminal = sys.stdout.isatty() and sys.stderr.isatty()
    profiles = order.verb == PROFILES
    limit_bytes = int(memory_bytes * MEMORY_SHARE)
    command = [*order.program, *order.words]
    return {
        "image": image.id,
        "command": [*_keeping(NCU_RIGHT, uid, gid), *command] if profiles else command,
        "name": f"tilebench-{order.verb}-{os.getpid()}",
        "labels": {OWNER: f"{socket.gethostname()}/{living(os.getpid())}"},
        "environment": {IMAGE_VARIABLE: str(image.id), **_visible(chosen), **_terminal()},
        "tty": terminal,
        "user": "0:0" if profiles else f"{uid}:{gid}",
        "mounts": _mounts(order.root),
        "working_dir": _inside(order.root),
        "read_only": True,
        "tmpfs": {"/tmp": "rw,exec,nosuid,nodev,mode=1777"},  # compiled kernels are loaded from there
        "network_mode": "none",
        "cap_drop": ["ALL"],
        "cap_add": [NCU_RIGHT, *CHANGING_RIGHTS] if profiles else [],
        "security_opt": ["no-new-privileges"],
        "pids_limit": PIDS,
        "cpuset_cpus": _cores(),
        "mem_limit": limit_bytes,
        "memswap_limit": limit_bytes,
        "shm_size": "1g",
        "ulimits": [Ulimit(name="nofile", soft=OPEN_FILES, hard=OPEN_FILES), Ulimit(name="core", soft=0, hard=0)],
        "device_requests": _requests(chosen) if order.gpus else [],
    }


def _cores() -> str:
    """The cores that this process is held to; empty for all of them."""
    own = os.sched_getaffinity(0)
    return ",".join(map(str, sorted(own))) if len(own) < (os.cpu_count() or 0) else ""


def _inside(root: Path) -> str:
    """Where a repository lies in the container: in place of the image's checkout if it is one."""
    return INSIDE if code(root) == root else REPOSITORY


def _mounts(root: Path) -> list[Mount]:
    """The repository, in which only records are written, and the code that judges it."""
    judging = [] if code(root) == root else ["harness", "kernels", "baselines"]
    return [
        *(Mount(f"{INSIDE}/{part}", str(code(root) / part), type="bind", read_only=True) for part in judging),
        Mount(_inside(root), str(root), type="bind", read_only=True),
        Mount(f"{_inside(root)}/tuning", str(root / "tuning"), type="bind"),
    ]


def sweep(client: DockerClient) -> None:
    """Remove the containers of killed runs of this machine."""
    for container in client.containers.list(all=True, filters={"label": OWNER}, ignore_removed=True):
        host, _, process = container.labels[OWNER].rpartition("/")
        if host == socket.gethostname() and not lives(process):
            with contextlib.suppress(NotFound):
                container.remove(force=True)


def _create(client: DockerClient, arguments: dict[str, Any]) -> Container:
    """Create the container; a taken name belongs to a dead process with the same number."""
    try:
        return client.containers.create(**arguments)
    except APIError as error:
        if error.status_code != 409:
            raise
        with contextlib.suppress(NotFound):
            client.containers.get(arguments["name"]).remove(force=True)
        return client.containers.create(**arguments)


@contextlib.contextmanager
def _attached(container: Container) -> Iterator[Any]:
    """What a container will write, as pairs of stdout and stderr."""
    output: Any = container.attach(stream=True, demux=True)
    try:
        yield output
    finally:
        output.close()
        output._response.close()  # the SDK itself leaves the socket's file open


def _pass_on(output: Any) -> None:
    for stdout, stderr in output:
        for chunk, stream in ((stdout, sys.stdout), (stderr, sys.stderr)):
            if chunk:
                stream.buffer.write(chunk)
                stream.flush()


def _outcome(container: Container) -> ExitCode:
    code = int(container.wait()["StatusCode"])
    container.reload()
    state = container.attrs["State"]
    if state.get("OOMKilled"):
        raise InfrastructureError("the container took more memory than its limit, and was ended; what it had is kept")
    try:
        return ExitCode(code)
    except ValueError:
        raise InfrastructureError(
            f"the container ended with code {code}: {state.get('Error') or 'see above'}"
        ) from None


def _stop(container: Container) -> None:
    """Stop as Ctrl-C does, so that the run ends its children; the removal kills what is left."""
    with contextlib.suppress(APIError, NotFound, KeyboardInterrupt):
        container.stop(timeout=GRACE_S)  # by the image's STOPSIGNAL, which is SIGINT


def _keeping(right: str, uid: int, gid: int) -> list[str]:
    """A command that becomes a user and keeps only one right."""
    only = f"-all,+{right.lower()}"
    return [
        "setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups",
        f"--inh-caps={only}", f"--ambient-caps={only}", f"--bounding-set={only}", "--",
    ]  # fmt: skip


def _requests(chosen: list[Device] | None) -> list[DeviceRequest]:
    """All GPUs, or the chosen ones."""
    if chosen is None:
        return [DeviceRequest(count=-1, capabilities=[["gpu"]])]
    uuids = [device.uuid for device in chosen]
    return [DeviceRequest(device_ids=uuids, capabilities=[["gpu"]])] if uuids else []


def _visible(chosen: list[Device] | None) -> dict[str, str]:
    """The chosen GPUs in order, which a request does not keep; by UUID, because a container renumbers them."""
    return {} if chosen is None else {VISIBLE: ",".join(device.uuid for device in chosen)}


@contextlib.contextmanager
def _lent(folder: Path) -> Iterator[tuple[int, int]]:
    """The user that runs the verb and owns its files: the caller, but never root.

    For root it is the folder's owner. A folder of root is given to a plain user, and given back afterwards.
    """
    owner = folder.stat()
    if os.getuid() != 0:
        yield os.getuid(), os.getgid()
    elif owner.st_uid != 0:
        yield owner.st_uid, owner.st_gid
    else:
        _give(folder, 0, PLAIN_USER)
        try:
            yield PLAIN_USER, PLAIN_USER
        finally:
            _give(folder, PLAIN_USER, 0)


def _give(folder: Path, old: int, new: int) -> None:
    for path in (folder, *folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_uid == old:
                os.chown(path, new, new, follow_symlinks=False)


def _terminal() -> dict[str, str]:
    names = ("COLUMNS", "LINES", "NO_COLOR", "TERM")
    return {name: os.environ[name] for name in names if name in os.environ}

"""The container's image, the Docker engine, and the confinement by Linux."""

import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Final

from harness.doctor.finding import HealthFinding
from harness.errors import InfrastructureError
from harness.judge.child import confinement
from harness.machine.nvml import Device
from harness.records import environment
from harness.records.base import Confinement

ENGINE_ANSWER_S: Final = 1
# A process of its own, because namespaces need a process with one thread.
_LEVEL: Final = (
    "from harness.judge.child import confinement as c, namespaces; print(c.level(namespaces=namespaces.offered()))"
)


def image(_: list[Device]) -> Iterable[HealthFinding]:
    yield HealthFinding("image", True, False, environment.image() or "none: not in the container")


def docker(present: list[Device]) -> Iterable[HealthFinding]:
    if environment.image() is not None:
        return
    from harness.container import engine

    try:
        with engine.connected(ENGINE_ANSWER_S) as client:
            told = client.info()
    except InfrastructureError as error:
        yield HealthFinding("Docker", False, False, "not to be used", str(error))
        return
    runtime = "nvidia" in told.get("Runtimes", {})
    remark = f", {'with' if runtime else 'no'} NVIDIA runtime" if present else ""
    found = f"engine {told['ServerVersion']}{remark}"
    yield HealthFinding("Docker", runtime or not present, False, found, engine.NO_RUNTIME)
    free = engine.free_gb(told)
    if free is not None:
        yield HealthFinding("room for the image", free >= engine.IMAGE_GB, False, f"{free:.0f} GB free", engine.NO_ROOM)


def linux_confinement(_: list[Device]) -> Iterable[HealthFinding]:
    """How an iteration is kept from other processes and files; it is judged even if a part is missing."""
    command = [sys.executable, "-c", _LEVEL]
    path = os.pathsep.join(filter(None, sys.path))
    told = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=True)
    level = Confinement(told.stdout.strip())
    found = f"{level}: {confinement.confinement()}"
    advice = "judge untrusted code on Linux 6.12 or newer; docs/explanation/trust.md says what this level leaves open"
    yield HealthFinding("confinement", level is not Confinement.LIMITS, False, found, advice)

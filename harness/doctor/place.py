"""The place: the container's image or the machine, the Docker engine that would run the image, how Linux confines."""

from collections.abc import Iterable
from typing import Final

from harness.container import engine
from harness.doctor.finding import HealthFinding
from harness.errors import InfrastructureError
from harness.judge.child import confinement
from harness.machine.nvml import Device
from harness.records import environment

ENGINE_ANSWER_S: Final = 1
SIGNALS_SCOPED: Final = 6  # Landlock's version from which signals are confined too


def image(_: list[Device]) -> Iterable[HealthFinding]:
    yield HealthFinding("image", True, False, environment.image() or "none: not in the container")


def docker(present: list[Device]) -> Iterable[HealthFinding]:
    if environment.image() is not None:
        return
    try:
        with engine.connected(ENGINE_ANSWER_S) as client:
            told = client.info()
    except InfrastructureError as error:
        yield HealthFinding("Docker", False, False, "not to be used", str(error))
        return
    found = f"engine {told['ServerVersion']}"
    if present:
        ready = "nvidia" in told.get("Runtimes", {})
        yield HealthFinding(
            "Docker", ready, False, f"{found}, {'with' if ready else 'no'} NVIDIA runtime", engine.NO_RUNTIME
        )
    else:
        yield HealthFinding("Docker", True, False, found)


def linux_confinement(_: list[Device]) -> Iterable[HealthFinding]:
    """What keeps an iteration from other processes and files: without all of it, it is judged all the same."""
    found = confinement.confinement()
    whole = confinement.landlock_version() >= SIGNALS_SCOPED and "no seccomp" not in found
    advice = "judge untrusted code on Linux 6.12 or newer; docs/explanation/trust.md says what this one leaves open"
    yield HealthFinding("confinement", whole, False, found, advice)

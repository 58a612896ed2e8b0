"""Ray: a cluster that is started for a run, or one that is there; its nodes, and the seats on them."""

import logging
import os
import secrets
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module, util
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from harness.catalog.gpus import VISIBLE
from harness.errors import InfrastructureError, described
from harness.extras.fleet.seat import Seat
from harness.judge.facts.gpu import Gpu
from harness.machine import files, interruption
from harness.machine.hints import adds
from harness.machine.nvml import Device

SIMULATED: Final = "tilebench_cpu"  # Ray's resource that stands for a GPU of the key cpu
STORE_BYTES: Final = 100 << 20
# Ray's modules without an option for what ``_lean`` leaves out.
PRIVATE: Final = ("ray._raylet", "ray._private.node", "ray._private.parameter", "ray._private.services")
AGENTS: Final = ("METRICS_AGENT", "METRICS_EXPORT", "DASHBOARD_AGENT_LISTEN", "RUNTIME_ENV_AGENT")
CLOSED: Final = 1  # a port at which no process without root's rights listens
SHORT: Final = "/tmp"  # Ray's sockets need short paths
# Ray sends no figures away. Its workers measure, so they are not nice, and the judge has limits of memory of its own.
SETTINGS: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


class SeatLost(Exception):
    """A seat, its worker or its host died, and what it was asked has no answer."""


class SeatFailed(SeatLost):
    """A seat lives, and could not do what it was asked."""


@dataclass(frozen=True, slots=True)
class Node:
    """A host of the cluster, and how many seats it has."""

    id: str
    host: str
    seats: int


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls of one seat. ``lane`` counts the seats of its node."""

    node: Node
    lane: int
    actor: Any

    def ask(self, method: str, *arguments: object) -> Any:
        """A reference to the answer, for ``answered``."""
        return getattr(self.actor, method).remote(*arguments)


def require() -> None:
    """Raise InfrastructureError where Ray is not installed."""
    if util.find_spec("ray") is None:
        raise InfrastructureError(f"more than one GPU needs Ray; {adds('bench GPUS=all', 'fleet')}")


@contextmanager
def local(devices: Sequence[Device], simulated: int) -> Iterator[None]:
    """Ray on this host alone, for these GPUs or for simulated ones; stopped afterwards. Raises InfrastructureError."""
    own = {**SETTINGS, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    if devices:
        own[VISIBLE] = ",".join(device.uuid for device in devices)
    files.sweep(SHORT)
    folder = files.make_scratch("ray", SHORT)
    options: dict[str, Any] = {
        "num_cpus": len(devices) or simulated,  # so many workers start at once, before they are asked for
        "num_gpus": len(devices),
        "resources": {SIMULATED: simulated} if simulated else None,
        "object_store_memory": STORE_BYTES,
        "include_dashboard": False,
        "_temp_dir": str(folder),
    }
    try:
        with patch.dict(os.environ, own), _lean(), _connected("local", options):
            yield
    finally:
        files.remove(folder)


@contextmanager
def _lean() -> Iterator[None]:
    """Ray on one host starts no autoscaler, dashboard, agent or reader of logs: none is asked, and each takes a second.

    ``ray.init`` has no option for them. A raylet must have agents, and waits for the files with their ports. So a
    shell that reads its input, which ends with the raylet, stands for each, and the files are there before.
    """
    raylet, node, parameter, services = map(import_module, PRIVATE)
    began = node.Node.start_raylet

    def start_raylet(self: Any, *arguments: Any, **options: Any) -> None:
        for agent in AGENTS:
            raylet.persist_port(self._session_dir, self._node_id, getattr(raylet, f"{agent}_PORT_NAME"), CLOSED)
        began(self, *arguments, **options)

    options = partial(parameter.RayParams, no_monitor=True, include_log_monitor=False)
    with (
        patch.multiple(parameter, RayParams=options),
        patch.multiple(node.Node, start_raylet=start_raylet, start_api_server=lambda *_, **__: None),
        patch.multiple(services, _build_python_executable_command_memory_profileable=lambda *_: ["sh", "-s"]),
    ):
        yield


@contextmanager
def joined(address: str) -> Iterator[None]:
    """A cluster that is there. Raises InfrastructureError where it does not answer."""
    with patch.dict(os.environ, {"RAY_USAGE_STATS_ENABLED": "0"}), _connected(address, {}):
        yield


@contextmanager
def _connected(address: str, options: Mapping[str, Any]) -> Iterator[None]:
    """A connection, in silence: stdout belongs to the verb, and the driver says itself what is lost."""
    import ray

    logging.getLogger("ray").addHandler(logging.NullHandler())
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        try:
            with warnings.catch_warnings(action="ignore"):  # the error says it
                _begin(address, options)
        except (ray.exceptions.RayError, OSError, RuntimeError, ValueError) as error:
            raise InfrastructureError(f"Ray at {address} does not answer: {described(error)}") from error
        finally:
            interruption.listen()  # Ray takes SIGTERM for itself
        try:
            yield
        finally:
            ray.shutdown()


def _begin(address: str, options: Mapping[str, Any]) -> None:
    import ray

    begin = partial(ray.init, address=address, configure_logging=False, log_to_driver=False, **options)
    try:
        begin()
    except ConnectionAbortedError:  # a busy head is late with the server that each client gets, and the next is not
        begin()


def nodes(gpu: Gpu, *, uses_device: bool = True) -> list[Node]:
    """The hosts with GPUs, or with what simulates them; without a device all hosts, each with one seat."""
    import ray

    resource = SIMULATED if gpu.is_cpu else "GPU"
    alive = [each for each in ray.nodes() if each["Alive"]]  # type: ignore[no-untyped-call]
    seats = (int(each["Resources"].get(resource, 0)) if uses_device else 1 for each in alive)
    found = (Node(each["NodeID"], each["NodeManagerHostname"], held) for each, held in zip(alive, seats, strict=True))
    return sorted((node for node in found if node.seats), key=lambda node: (node.host, node.id))


def seat(
    node: Node, lane: int, gpu: Gpu, notebook: str, root: Path, *, uses_device: bool = True, image: str | None = None
) -> Caller:
    """A new seat on a node; it has a GPU for itself as long as it lives, if it uses one."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    made = ray.remote(Seat).options(
        num_cpus=0,
        num_gpus=int(uses_device and not gpu.is_cpu),
        resources={SIMULATED: 1} if uses_device and gpu.is_cpu else None,
        max_restarts=0,
        max_task_retries=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
    )
    return Caller(node, lane, made.remote(gpu.key, notebook, str(root), lane, node.seats, uses_device, image))


def ready(references: Sequence[Any], seconds: float) -> list[Any]:
    """Those of the references that have an answer, waiting for all of them at most so long."""
    import ray

    return list(ray.wait(list(references), num_returns=len(references), timeout=seconds)[0]) if references else []


def answered(reference: Any, seconds: float | None = None) -> Any:
    """The answer. Raises SeatLost where there will be none, or none within that time."""
    import ray

    try:
        return ray.get(reference, timeout=seconds)
    except ray.exceptions.RayTaskError as error:
        raise SeatFailed(described(error.cause or error)) from error
    except ray.exceptions.RayError as error:
        raise SeatLost(type(error).__name__) from error


def give_up(caller: Caller) -> None:
    """End a seat; its GPU is free for another."""
    import ray

    with suppress(ray.exceptions.RayError):
        ray.kill(caller.actor)

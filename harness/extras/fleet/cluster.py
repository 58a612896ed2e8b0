"""Ray: a cluster that is started for a run, or one that is there; its nodes, and the seats on them."""

import importlib.util
import logging
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from harness.catalog.gpus import VISIBLE
from harness.errors import InfrastructureError, described
from harness.extras.fleet.seat import Seat
from harness.judge.facts.gpu import Gpu
from harness.machine import files, interruption
from harness.machine.hints import pip_install_here
from harness.machine.nvml import Device

SIMULATED: Final = "tilebench_cpu"  # Ray's resource that stands for a GPU of the key cpu
STORE_BYTES: Final = 100 << 20
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
    if importlib.util.find_spec("ray") is None:
        raise InfrastructureError(
            f"more than one GPU needs Ray: `make bench GPUS=all` adds it, or {pip_install_here('fleet')}"
        )


@contextmanager
def local(devices: Sequence[Device], simulated: int) -> Iterator[None]:
    """Ray on this host alone, for these GPUs or for simulated ones; stopped afterwards. Raises InfrastructureError."""
    own = {**SETTINGS, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    if devices:
        own[VISIBLE] = ",".join(device.uuid for device in devices)
    files.sweep(SHORT)
    folder = files.make_scratch("ray", SHORT)
    options: dict[str, Any] = {
        "num_cpus": 0,
        "num_gpus": len(devices),
        "resources": {SIMULATED: simulated} if simulated else None,
        "object_store_memory": STORE_BYTES,
        "include_dashboard": False,
        "_temp_dir": str(folder),
    }
    try:
        with _environment(own), _lean(), _connected("local", options):
            yield
    finally:
        files.remove(folder)


@contextmanager
def _lean() -> Iterator[None]:
    """Ray on one host starts no autoscaler, dashboard or reader of logs: nothing asks them, and they take seconds.

    ``ray.init`` has no option for them.
    """
    from ray._private import node, parameter

    options, dashboard = parameter.RayParams, node.Node.start_api_server
    parameter.RayParams = partial(options, no_monitor=True, include_log_monitor=False)  # type: ignore[arg-type, assignment, misc]
    node.Node.start_api_server = lambda *_, **__: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        parameter.RayParams, node.Node.start_api_server = options, dashboard  # type: ignore[misc,method-assign]


@contextmanager
def joined(address: str) -> Iterator[None]:
    """A cluster that is there. Raises InfrastructureError where it does not answer."""
    with _environment({"RAY_USAGE_STATS_ENABLED": "0"}), _connected(address, {}):
        yield


@contextmanager
def _connected(address: str, options: Mapping[str, Any]) -> Iterator[None]:
    """A connection, in silence: stdout belongs to the verb, and the driver says itself what is lost."""
    import ray

    logging.getLogger("ray").addHandler(logging.NullHandler())
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        try:
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


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def nodes(gpu: Gpu, *, uses_device: bool = True) -> list[Node]:
    """The hosts with GPUs, or with what simulates them; without a device all hosts, each with one seat."""
    import ray

    resource = SIMULATED if gpu.is_cpu else "GPU"
    alive = [each for each in ray.nodes() if each["Alive"]]  # type: ignore[no-untyped-call]
    seats = {each["NodeID"]: int(each["Resources"].get(resource, 0)) if uses_device else 1 for each in alive}
    found = [
        Node(each["NodeID"], each["NodeManagerHostname"], seats[each["NodeID"]])
        for each in alive
        if seats[each["NodeID"]]
    ]
    return sorted(found, key=lambda node: (node.host, node.id))


def seat(node: Node, lane: int, gpu: Gpu, notebook: str, root: Path, *, uses_device: bool = True) -> Caller:
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
    return Caller(node, lane, made.remote(gpu.key, notebook, str(root), lane, node.seats, uses_device))


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

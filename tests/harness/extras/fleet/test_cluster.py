"""A fleet on a Ray cluster of three hosts, each with simulated GPUs: one command, one notebook, each ladder once."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from harness.errors import ExitCode
from tests.harness.checkout import one_line, until
from tests.harness.extras.fleet.conftest import SHAPES, Notebook

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="the extra fleet is not installed"),
]
SETTINGS = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}


@dataclass
class Hosts:
    """A Ray cluster by Ray's own command line: a head without GPUs, to which a test adds hosts."""

    notebook: Notebook
    folder: Path  # with a short name, for Ray's sockets
    port: int
    client_port: int
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def client(self) -> str:
        return f"ray://127.0.0.1:{self.client_port}"

    def head(self) -> None:
        ports = (f"--port={self.port}", f"--ray-client-server-port={self.client_port}")
        self._start("--head", *ports, "--include-dashboard=false", f"--temp-dir={self.folder}")

    def add(self, seats: int = 1) -> subprocess.Popen[bytes]:
        """A host; its seats have the environment of this moment, since that of a driver does not reach them."""
        return self._start(f"--address={self.address}", f'--resources={{"tilebench_cpu": {seats}}}')

    def raylets(self) -> list[psutil.Process]:
        """Those of the hosts that were added."""
        found = [each for each in self.notebook.processes() if each.name() == "raylet"]
        return [each for each in found if each.ppid() != self.started[0].pid]

    def victims(self, kind: str) -> list[psutil.Process]:
        kinds = {"worker": self.notebook.seats, "subprocess": self.notebook.stubs, "raylet": self.raylets}
        return kinds[kind]() if kind in kinds else []

    def replace_lost(self) -> None:
        for host in [each for each in self.started if each.poll() is not None]:
            self.started.remove(host)
            self.add()

    def lose(self, host: subprocess.Popen[bytes]) -> None:
        os.killpg(host.pid, signal.SIGKILL)
        host.wait()

    def _start(self, *options: str) -> subprocess.Popen[bytes]:
        ray = Path(sys.executable).with_name("ray")
        log = self.folder.with_name(f"{time.monotonic_ns()}.log")
        with log.open("wb") as said:
            made = subprocess.Popen(
                [ray, "start", "--num-cpus=0", f"--object-store-memory={80 << 20}", "--block", *options],
                env=self.notebook.environment(**SETTINGS),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        self.started.append(made)
        assert until(lambda: b"--block" in log.read_bytes() or made.poll() is not None, 90)
        assert made.poll() is None, log.read_text()
        return made


@pytest.fixture
def hosts(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    base = Path(tempfile.mkdtemp(prefix="tb", dir="/tmp"))
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        made = Hosts(notebook, base / "ray", one.getsockname()[1], other.getsockname()[1])
    made.head()
    yield made
    for process in notebook.processes():
        process.kill()
    for host in made.started:
        host.wait()
    shutil.rmtree(base)


def whole(notebook: Notebook, steps: int) -> bool:
    names = {each.shape_key for each in notebook.records()}
    return notebook.names() == sorted((name, f"iter{step:03d}_step") for name in names for step in range(steps))


@pytest.mark.parametrize("way", ["address", "client"])
def test_three_hosts_share_one_notebook(
    notebook: Notebook, hosts: Hosts, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACE_S", "0.3")
    for shape in SHAPES:
        notebook.ladder(shape, 3)
    for seats in (1, 2, 1):
        hosts.add(seats)
    code, said = notebook.run(RAY_ADDRESS=getattr(hosts, way))
    assert code == ExitCode.PASSED, said
    assert notebook.printed == "24 0\n"
    assert whole(notebook, 3)
    assert notebook.left() == []
    assert until(lambda: not notebook.seats() and not notebook.stubs(), 10)


def test_a_lost_host_costs_no_record(notebook: Notebook, hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACE_S", "0.7")
    for shape in SHAPES[:4]:
        notebook.ladder(shape, 5)
    lost, _ = hosts.add(), hosts.add()
    driver = notebook.start(RAY_ADDRESS=hosts.address)
    assert until(lambda: len(notebook.records()) >= 3, 60)
    hosts.lose(lost)
    assert driver.wait(240) == ExitCode.PASSED, notebook.said
    assert "was lost with" in notebook.said
    assert whole(notebook, 5)


@pytest.mark.skipif("KILLS" not in os.environ, reason="it takes minutes: KILLS=100 says how many")
def test_killed_at_random_moments_a_cluster_loses_and_doubles_nothing(
    notebook: Notebook, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver, a worker, a subprocess or a raylet is killed; runs follow each other until there were ``KILLS``."""
    for shape in SHAPES[:6]:
        notebook.ladder(shape, 6)
    ledger = notebook.root / "ledger.txt"
    monkeypatch.setenv("LEDGER", str(ledger))
    monkeypatch.setenv("PACE_S", "0.5")
    for _ in range(3):
        hosts.add()
    driver: subprocess.Popen[bytes] | None = None
    killed: Counter[str] = Counter()
    while killed.total() < int(os.environ["KILLS"]):
        if driver is None or driver.poll() is not None:
            hosts.replace_lost()
            accounted(notebook, ledger)
            way = random.choice([hosts.address, hosts.client])
            driver = notebook.start(RAY_ADDRESS=way)
        time.sleep(random.uniform(0, 8))
        kind = random.choice(["driver", "worker", "subprocess", "raylet"])
        victims = hosts.victims(kind) if kind != "driver" or driver.poll() is not None else [psutil.Process(driver.pid)]
        for victim in random.sample(victims, min(1, len(victims))):
            with suppress(psutil.NoSuchProcess):
                victim.kill()
                killed[kind] += 1
                print(f"{killed.total()} {kind}", file=sys.stderr, flush=True)
        if kind == "raylet":
            until(lambda: any(each.poll() is not None for each in hosts.started), 10)
            hosts.replace_lost()
    assert driver is not None
    driver.wait(240)
    code, said = notebook.run(RAY_ADDRESS=hosts.address)
    assert code == ExitCode.PASSED, said
    assert {shape for shape, _ in notebook.names()} == set(SHAPES[:6])
    assert notebook.left() == []
    accounted(notebook, ledger)
    assert until(lambda: not notebook.seats() and not notebook.stubs(), 10)


def accounted(notebook: Notebook, ledger: Path) -> None:
    """No record is twice in the notebook; once a run has ended well, each that was made is there, and it is emptied."""
    ids = [each.id for each in notebook.records()]
    assert len(ids) == len(set(ids))
    if len(set(notebook.names())) == 36 and notebook.left() == []:
        assert set(ledger.read_text().split()) <= set(ids)
        ledger.unlink()
        for path in notebook.tree.all_records("cpu"):
            path.unlink()


def test_a_cluster_without_gpus_is_refused(notebook: Notebook, hosts: Hosts) -> None:
    notebook.ladder(SHAPES[0], 1)
    code, said = notebook.run(RAY_ADDRESS=hosts.address)
    assert code == ExitCode.INFRASTRUCTURE
    assert one_line(said).endswith("no GPU of key cpu can be used; no host of the cluster has one")


def test_a_cluster_that_does_not_answer_is_named(notebook: Notebook) -> None:
    notebook.ladder(SHAPES[0], 1)
    code, said = notebook.run(RAY_ADDRESS="ray://127.0.0.1:1")
    assert code == ExitCode.INFRASTRUCTURE
    assert "Ray at ray://127.0.0.1:1 does not answer" in one_line(said)

"""The container, for real: built, run, looked at, interrupted, and held against what it claims."""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest
from docker.models.images import Image
from docker.types import DeviceRequest

from harness.container import engine as engines
from harness.container import sandbox
from harness.records.environment import IMAGE_VARIABLE
from harness.records.results import Record
from harness.records.store import read
from tests.harness.container.machine import USER, Engine, Host
from tests.harness.envelopes import answer

SHAPE = "matmul_f32fp32_256x256x256"
OTHER = "linear_f32fp32_128x256x512"
BENCH = ("make", "docker-bench", "GPU=cpu", "PYTHON=/usr/bin/python3", "ARGS=--budget 0.2 --no-opponents")
SETTLED = 200.0


pytestmark = pytest.mark.usefixtures("gone")


def records(host: Host, shape: str = SHAPE) -> list[Record]:
    path = host.clone / "tuning" / "cpu" / "tilelang" / "logs" / shape / "tilebench" / "results.jsonl"
    found, problems = read(path, Record)
    assert problems == []
    return found


def pins(text: str) -> dict[str, str]:
    """Versions by their names, of a lock without its hashes or of a listing; a local version is that of a build."""
    pairs = (line.partition("==") for line in text.splitlines() if re.match(r"[A-Za-z0-9]", line) and "==" in line)
    return {re.sub(r"[-_.]+", "-", name).lower(): version.split()[0].partition("+")[0] for name, _, version in pairs}


def until(condition: Callable[[], object], seconds: float = SETTLED) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.1)


def said(client: docker.DockerClient, image: Image, *command: str, stderr: bool = True) -> str:
    """What `docker run --rm IMAGE COMMAND` prints. Lines of ``stderr`` may come anywhere between the others."""
    output = client.containers.run(image, list(command) or None, remove=True, network_mode="none", stderr=stderr)
    return output.decode()


# The second of the two commands, and what it leaves


def test_bench_in_docker_leaves_the_callers_records_and_they_name_the_image(host: Host, image: Image) -> None:
    done = host.run(*BENCH, f"SHAPE={SHAPE}")
    assert done.returncode == 0, done.stderr
    assert f"{SHAPE} on cpu" in done.stdout
    assert len(records(host)) > 5
    assert {each.environment.image for each in records(host)} == {image.id}
    written = list((host.clone / "tuning" / "cpu" / "tilelang").rglob("*"))
    assert {path.stat().st_uid for path in written} == {USER}
    assert {"cmd", "perf", "logs", "baseline"} <= {path.name for path in written}


def test_versions_are_the_same_in_the_locks_the_image_and_the_records(
    host: Host, image: Image, client: docker.DockerClient
) -> None:
    locked = pins((host.clone / "requirements.lock").read_text())
    installed = pins(said(client, image, "cat", "/opt/tilebench/contents"))
    assert {name: installed.get(name) for name in locked} == locked
    assert installed.keys() - locked.keys() <= {"pip", "setuptools"}
    for record in records(host):
        told = record.environment
        recorded = {"torch": told.torch, "tilelang": told.tilelang, "apache-tvm-ffi": told.tvm_ffi}
        assert {name: version.partition("+")[0] for name, version in recorded.items()} == {
            name: locked[name] for name in recorded
        }


def test_a_second_run_measures_nothing_again(host: Host) -> None:
    before = records(host)
    done = host.run(*BENCH, f"SHAPE={SHAPE}")
    assert done.returncode == 0
    assert done.stderr.count("(recorded before)") == len(before)
    assert records(host) == before


def test_ctrl_c_leaves_no_container_and_the_next_run_continues(host: Host, client: docker.DockerClient) -> None:
    process = host.start(*BENCH, f"SHAPE={OTHER}")
    until(lambda: len(records(host, OTHER)) >= 2)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "the same command continues" in stderr
    assert "Traceback" not in stderr
    assert client.containers.list(all=True) == []
    kept = len(records(host, OTHER))
    done = host.run(*BENCH, f"SHAPE={OTHER}")
    assert done.returncode == 0
    assert done.stderr.count("(recorded before)") == kept
    assert len(records(host, OTHER)) > kept


# What a run may do


def test_docker_inspect_shows_no_privileges(host: Host, image: Image, client: docker.DockerClient) -> None:
    process = host.start(*BENCH[:-1], "ARGS=--budget 0.2 --again --no-opponents", f"SHAPE={SHAPE}", "ITER=3")
    until(client.containers.list)
    shown = client.api.inspect_container(str(client.containers.list()[0].id))
    process.communicate(timeout=120)
    assert process.returncode == 0
    rights, config = shown["HostConfig"], shown["Config"]
    assert rights["CapDrop"] == ["ALL"]
    assert not rights["CapAdd"]
    assert not rights["Privileged"]
    assert rights["SecurityOpt"] == ["no-new-privileges"]
    assert rights["NetworkMode"] == "none"
    assert rights["ReadonlyRootfs"]
    assert rights["PidsLimit"] == sandbox.PIDS
    assert 0 < rights["Memory"] == rights["MemorySwap"]
    assert list(rights["Tmpfs"]) == ["/tmp"]
    assert config["User"] == f"{USER}:{USER}"
    assert f"{IMAGE_VARIABLE}={image.id}" in config["Env"]
    writable = {mount["Destination"] for mount in shown["Mounts"] if mount["RW"]}
    assert writable == {"/tilebench/tuning"}


def inside(client: docker.DockerClient, host: Host, image: Image, verb: str, script: str) -> str:
    """What a script prints in the container that a verb would get."""
    order = sandbox.ContainerCommand(host.clone, (verb,), gpus=False, program=("sh", "-c", script))
    made = client.containers.run(**sandbox.settings(image, order, USER, USER, 8 << 30), detach=True)
    try:
        made.wait()
        output: bytes = made.logs()
        return output.decode()
    finally:
        made.remove(force=True)


def status(output: str) -> dict[str, str]:
    return {key: value.strip() for key, _, value in (line.partition(":") for line in output.splitlines())}


def test_a_bench_cannot_write_reach_or_become_anything(host: Host, image: Image, client: docker.DockerClient) -> None:
    tries = (
        "cat /proc/self/status; id -u; touch /tilebench/harness/x /usr/x /opt/x; ls /sys/class/net; "
        "touch /tmp/kernel.so && echo scratch; touch /tilebench/tuning/x && rm /tilebench/tuning/x && echo notebook"
    )
    output = inside(client, host, image, "bench", tries)
    told = status(output)
    assert {told[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert told["NoNewPrivs"] == "1"
    assert told["Seccomp"] == "2"
    assert output.count("Read-only file system") == 3
    lines = output.splitlines()
    assert {str(USER), "lo", "scratch", "notebook"} <= set(lines)
    assert "eth0" not in lines


def test_only_profile_gets_the_one_right_that_ncu_needs(host: Host, image: Image, client: docker.DockerClient) -> None:
    told = status(inside(client, host, image, "profile", "cat /proc/self/status"))
    assert {int(told[f"Cap{kind}"], 16) for kind in ("Prm", "Eff", "Bnd")} == {1 << 21}  # CAP_SYS_ADMIN
    assert told["NoNewPrivs"] == "1"
    assert set(told["Uid"].split()) == set(told["Gid"].split()) == {str(USER)}
    assert told["Groups"] == ""


# A plain docker run


def test_a_bare_run_prints_the_leaderboards_help_and_what_it_sees(image: Image, client: docker.DockerClient) -> None:
    output = said(client, image)
    assert "Usage: tilebench leaderboard" in output
    assert "no NVIDIA GPU" in output
    assert "contents:" in output


def test_commands_of_a_plain_run_find_their_environment(image: Image, client: docker.DockerClient) -> None:
    assert "passed" in said(client, image, "nox", "-s", "check", "--", "--gpu", "h200", "--iter", "0")
    verify = ("python3", "-m", "harness", "verify", "--gpu", "cpu", "--iter", "0", "--json")
    verified = answer(said(client, image, *verify, stderr=False))
    assert re.fullmatch(r"contents:[0-9a-f]{64}", verified["records"][0]["environment"]["image"])


def test_doctor_finds_the_image_as_it_was_locked(host: Host, image: Image) -> None:
    done = host.harness("run-in-docker", "doctor", "--json")
    findings = {each["name"]: each for each in answer(done.stdout)}
    assert findings["locked packages"]["ok"], findings["locked packages"]
    assert findings["image"]["found"] == image.id
    assert all(each["ok"] for each in findings.values() if each["needed"]), findings


# What goes wrong


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """One line on stderr, and the exit code of a machine in the way."""
    assert done.returncode == 3, done.stderr
    assert done.stderr.startswith("tilebench: ")
    assert done.stderr.count("\n") == 1
    return done.stderr.strip()


def test_no_nvidia_runtime(host: Host, image: Image) -> None:
    assert complaint(host.harness("run-in-docker", "bench", "--gpu", "h100")).endswith(engines.NO_RUNTIME)


def test_gpus_all_of_a_plain_run_gets_the_same_words(image: Image, client: docker.DockerClient) -> None:
    with pytest.raises(docker.errors.APIError) as refused:
        client.containers.create(
            image, device_requests=[DeviceRequest(count=-1, capabilities=[["gpu"]])], name="left"
        ).start()
    client.containers.get("left").remove()
    assert engines.explain(refused.value) == engines.NO_RUNTIME


def test_no_permission_on_the_socket(host: Host, image: Image) -> None:
    stranger = Host(host.clone, host.environment, groups="--clear-groups")
    assert "no permission" in complaint(stranger.harness("run-in-docker", "bench"))


def test_no_daemon(host: Host, image: Image, work: Path) -> None:
    line = complaint(host.harness("run-in-docker", "bench", variables={"DOCKER_HOST": f"unix://{work}/nobody.sock"}))
    assert "no Docker daemon answers" in line


def test_no_image(host: Host, image: Image) -> None:
    assert "no image 'nothing:here'" in complaint(host.harness("run-in-docker", "--image", "nothing:here", "bench"))


@pytest.fixture
def small(work: Path) -> Iterator[Engine]:
    """An engine with a disk that is nearly full."""
    folder = work / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], check=True)
    engine = Engine.start(folder)
    yield engine
    engine.stop()
    subprocess.run(["umount", "--lazy", str(folder)], check=False)


def test_no_room(small: Engine, work: Path) -> None:
    (work / "large").write_bytes(os.urandom(30 << 20))
    subprocess.run(["tar", "-C", str(work), "-cf", str(work / "large.tar"), "large"], check=True)
    with contextlib.closing(small.client()) as client, pytest.raises(docker.errors.APIError) as refused:
        client.api.import_image(str(work / "large.tar"), repository="large")
    assert engines.explain(refused.value) == engines.NO_ROOM


def test_a_step_that_fails_is_named(host: Host, base: str, image: Image) -> None:
    done = host.harness("image", "--name", "broken", "--base", base, "--network", "host", "--cuda")
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 3
    assert last.startswith("tilebench: the image could not be built: RUN if ")
    assert "nvcc: not found" in last


def test_exit_codes_come_through(host: Host, image: Image) -> None:
    assert host.harness("run-in-docker", "bench", "--gpu", "cpu", "--shape", "nonsense").returncode == 2
    assert host.harness("run-in-docker").returncode == 2
    broken = host.clone / "tuning" / "cpu" / "tilelang" / "srcs" / SHAPE / "tester" / "iter000_no_docstring.py"
    broken.parent.mkdir()
    broken.write_text("PARENT = None\n")
    try:
        assert host.harness("run-in-docker", "check", "--gpu", "cpu", "--model", "tester").returncode == 1
    finally:
        broken.unlink()
        broken.parent.rmdir()


def test_a_container_that_a_killed_run_left_is_removed(host: Host, image: Image, client: docker.DockerClient) -> None:
    process = host.start(
        ".venv-docker/bin/python", "-m", "harness", "run-in-docker", "bench", "--gpu", "cpu", "--again"
    )
    until(client.containers.list)
    left = client.containers.list()[0].name
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert client.containers.list()[0].name == left
    assert host.harness("run-in-docker", "check", "--gpu", "cpu").returncode == 0
    assert client.containers.list(all=True) == []


def test_a_name_that_is_taken_is_taken_over(
    host: Host, image: Image, client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = sandbox.ContainerCommand(host.clone, ("check", "--gpu", "cpu"), gpus=False)
    client.containers.create(image, name=f"tilebench-check-{os.getpid()}")
    assert sandbox.run(client, image, order) == 0


def test_root_hands_the_notebook_to_a_plain_user_and_gets_it_back(
    host: Host, image: Image, client: docker.DockerClient, work: Path
) -> None:
    owned = work / "owned"
    subprocess.run(["cp", "-r", "--no-preserve=ownership", str(host.clone), str(owned)], check=True)
    order = sandbox.ContainerCommand(owned, ("verify", "--gpu", "cpu", "--iter", "0", "--again"), gpus=False)
    assert sandbox.run(client, image, order) == 0
    assert {path.stat().st_uid for path in (owned / "tuning").rglob("*")} == {0}
    (logs,) = (owned / "tuning" / "cpu" / "tilelang" / "logs" / SHAPE).rglob("results.jsonl")
    assert len(read(logs, Record)[0]) == len(records(host)) + 1

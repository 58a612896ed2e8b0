"""The container without an engine: what is asked of Docker, and what is said where it refuses."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, ImageNotFound

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.cli.container import _needs_gpu
from harness.container import engine, image, sandbox
from harness.errors import InfrastructureError, UsageError
from harness.machine.nvml import Device
from harness.machine.progress import Quiet
from harness.records import environment
from tests.harness.checkout import ROOT, one_line

# What engines and NVIDIA's runtime have said, as users reported it.
NO_DRIVER_FOUND = 'could not select device driver "" with capabilities: [[gpu]]'
NO_CDI = "failed to discover GPU vendor from CDI: no known GPU vendor found"
OLD_DRIVER = (
    "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init: error running prestart hook #0: exit status 1, "
    "stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: requirement error: unsatisfied condition: "
    "cuda>=13.0, please update your driver to a newer version, or use an earlier cuda container: unknown"
)
NOT_LOADED = "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown"
FULL = "write /var/lib/docker/tmp/GetImageBlob123: no space left on device"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (NO_DRIVER_FOUND, "nvidia-ctk runtime configure"),
        (NO_CDI, "nvidia-ctk runtime configure"),
        (OLD_DRIVER, "older than the image's CUDA 13.0, which needs driver 580 or newer"),
        (NOT_LOADED, "nvidia-smi must work"),
        (FULL, "docker system prune"),
        ("something else\nover two lines", "Docker: something else over two lines"),
    ],
)
def test_what_the_engine_refuses_is_one_line_with_what_to_do(said: str, words: str) -> None:
    line = engine.explain(APIError("500 Server Error", explanation=said))
    assert words in line
    assert "\n" not in line


def test_a_missing_image_names_what_builds_it() -> None:
    assert "make image" in engine.explain(ImageNotFound("404 Client Error", explanation="No such image: x:latest"))


# The socket


@pytest.fixture
def silent(tmp_path: Path) -> str:
    """A socket that a dead daemon left."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "docker.sock"))
    return f"unix://{tmp_path}/docker.sock"


def complaint(host: str, path: str = os.environ["PATH"]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "harness", "run-in-docker", "bench"],
        env=os.environ | {"DOCKER_HOST": host, "PATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    return one_line(done.stderr)


def test_no_docker(tmp_path: Path) -> None:
    assert "Docker is not installed" in complaint(f"unix://{tmp_path}/none.sock", path=str(tmp_path))


def test_no_daemon(tmp_path: Path, silent: str) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "docker").symlink_to(shutil.which("true") or "/bin/true")
    assert "systemctl start docker" in complaint(f"unix://{tmp_path}/none.sock", path=str(tools))
    assert "systemctl start docker" in complaint(silent)


def test_no_permission() -> None:
    assert "usermod -aG docker" in engine.unreachable("unix:///docker.sock", PermissionError(13, "Permission denied"))


def test_an_address_that_is_none() -> None:
    assert "cannot be used" in complaint("gopher://nowhere")


# The container's arguments

IMAGE: Any = SimpleNamespace(id="sha256:0123", labels={}, attrs={"Config": {"Env": ["CUDA_VERSION=13.0.3", "A=b"]}})


def order(*words: str, gpus: bool = False) -> sandbox.ContainerCommand:
    return sandbox.ContainerCommand(ROOT, words, gpus)


def test_a_bench_has_no_rights_and_a_profile_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    bench = sandbox.settings(IMAGE, order("bench", "--gpu", "h100", gpus=True), 1234, 2345, 10 << 30)
    assert (bench["cap_drop"], bench["cap_add"], bench["user"]) == (["ALL"], [], "1234:2345")
    assert (bench["network_mode"], bench["read_only"]) == ("none", True)
    assert bench["security_opt"] == ["no-new-privileges"]
    assert bench["mem_limit"] == bench["memswap_limit"] == 9 << 30
    assert bench["command"] == ["python3", "-m", "harness", "bench", "--gpu", "h100"]
    assert bench["device_requests"][0]["Capabilities"] == [["gpu"]]
    assert bench["environment"]["TILEBENCH_IMAGE"] == "sha256:0123"
    profile = sandbox.settings(IMAGE, order("profile"), 1234, 2345, 10 << 30)
    assert "SYS_ADMIN" in profile["cap_add"]
    assert profile["command"][:3] == ["setpriv", "--reuid=1234", "--regid=2345"]
    differing = {name for name in bench if bench[name] != profile[name]} - {"name", "command", "device_requests"}
    assert differing == {"user", "cap_add"}


@pytest.mark.parametrize(
    ("said", "count", "uuids", "visible"),
    [
        (None, -1, [], None),
        ("2", 0, ["GPU-2"], "GPU-2"),
        ("2,0", 0, ["GPU-2", "GPU-0"], "GPU-2,GPU-0"),
        ("GPU-1", 0, ["GPU-1"], "GPU-1"),
        ("", None, None, ""),
    ],
)
def test_the_container_gets_the_gpus_that_are_visible(
    monkeypatch: pytest.MonkeyPatch, said: str | None, count: int | None, uuids: list[str] | None, visible: str | None
) -> None:
    machine = [Device(index, "NVIDIA H200", f"GPU-{index}", "580", None) for index in range(3)]
    monkeypatch.setattr(gpus, "devices", lambda: machine)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if said is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", said)
    given = sandbox.settings(IMAGE, order("bench", gpus=True), 1, 1, 1 << 30)
    asked = [(each["Count"], each["DeviceIDs"], each["Capabilities"]) for each in given["device_requests"]]
    assert asked == ([] if count is None else [(count, uuids, [["gpu"]])])
    assert given["environment"].get("CUDA_VISIBLE_DEVICES") == visible
    plain = sandbox.settings(IMAGE, order("bench"), 1, 1, 1 << 30)
    assert plain["device_requests"] == []


def test_without_nvml_on_the_host_the_container_gets_all_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "devices", list)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    given = sandbox.settings(IMAGE, order("bench", gpus=True), 1, 1, 1 << 30)
    assert given["device_requests"][0]["Count"] == -1
    assert "CUDA_VISIBLE_DEVICES" not in given["environment"]


@pytest.mark.parametrize(
    ("words", "present", "needs"),
    [
        (("bench",), True, True),
        (("bench",), False, False),
        (("bench", "--gpu", "cpu"), True, False),
        (("bench", "--gpu=h100"), False, True),
        (("build", "--gpu", "h200"), False, False),
        (("leaderboard", "--gpu", "h200"), False, False),
        (("build", "--gpu", "h200"), True, True),
        (("bench", "--gpu", "auto", "--json"), False, False),
        (("doctor",), True, True),
    ],
)
def test_gpus_are_given_to_what_needs_them(
    words: tuple[str, ...], present: bool, needs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "harness.cli.container.devices", lambda: [Device(0, "NVIDIA H200", "GPU-1", "580", 700.0)] if present else []
    )
    assert _needs_gpu(words) == needs


def test_a_driver_that_fails_is_not_asked_for_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[Device]:
        raise InfrastructureError("the NVIDIA driver fails")

    monkeypatch.setattr("harness.cli.container.devices", broken)
    assert not _needs_gpu(("bench", "--gpu", "cpu"))


def test_a_gpu_key_that_nobody_knows_is_refused_before_anything_starts() -> None:
    with pytest.raises(UsageError, match="h1000"):
        _needs_gpu(("bench", "--gpu", "h1000"))


@pytest.mark.parametrize(("driver", "enough"), [("580.65.06", True), ("575.57.08", False)])
def test_the_driver_is_held_against_the_images_cuda(driver: str, enough: bool) -> None:
    device = Device(0, "NVIDIA H100", "GPU-0", driver, None)
    if enough:
        engine.check_driver(image.variable(IMAGE, "CUDA_VERSION"), device.driver)
    else:
        with pytest.raises(InfrastructureError, match=rf"{driver}, is older than the image's CUDA 13\.0\.3.*580"):
            engine.check_driver(image.variable(IMAGE, "CUDA_VERSION"), device.driver)


# The image's arguments


def test_only_settings_that_mean_something_in_the_image_are_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in image.INHERITED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_FIND_LINKS", "/a/folder/of/this/machine")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    given = image.Recipe(ROOT, base="debian:12", cuda=False).arguments()
    assert given.keys() == {"PIP_INDEX_URL", "PINS", "CUDA", "BASE_IMAGE", "SNAPSHOT"}
    assert (given["CUDA"], given["BASE_IMAGE"], given["SNAPSHOT"]) == ("0", "debian:12", "")
    assert image.Recipe(ROOT).arguments().keys() == {"PIP_INDEX_URL", "PINS", "CUDA"}


def test_what_a_build_needs_is_looked_at_before_it_begins(tmp_path: Path) -> None:
    def check(recipe: image.Recipe, driver: str | None, folder: Path) -> None:
        client: Any = SimpleNamespace(info=lambda: {"DockerRootDir": str(folder)})
        device: Any = None if driver is None else SimpleNamespace(driver=driver)
        image.check_machine(client, recipe, device)

    nowhere = tmp_path / "of another machine"
    recipe, least = image.Recipe(ROOT), gpus.LEAST_DRIVER[13]
    check(recipe, f"{least}.65", nowhere)
    with pytest.raises(InfrastructureError, match=f"older than the image's CUDA 13.* driver {least} or newer"):
        check(recipe, f"{least - 1}.1", nowhere)
    check(image.Recipe(ROOT, base="debian:12"), "1.0", nowhere)
    with pytest.raises(InfrastructureError, match=f"^0 GB are free: .*the image takes {engine.IMAGE_GB} GB"):
        check(recipe, None, Path("/proc"))  # a file system without blocks
    check(image.Recipe(ROOT, base="debian:12", cuda=False), None, Path("/proc"))


def test_an_image_fits_until_a_pin_changes(tree: Tree) -> None:
    for name in image.PINNED:
        (tree.root / name).write_text(name)
    built: Any = SimpleNamespace(labels={image.LABEL: image.pins_sha256(tree.root)})
    here: Any = SimpleNamespace(images=SimpleNamespace(get=lambda _: built))
    assert image.fitting(here, tree.root) == built
    (tree.root / "requirements.lock").write_text("torch==2.14.0")
    found = image.fitting(here, tree.root)
    assert found is None


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "Reading lists\nE: Unable to locate package tini\nmore",
            "RUN apt-get update: E: Unable to locate package tini$",
        ),
        ("a\nb\nc\nd", "RUN apt-get update: b c d$"),
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "docker system prune"),
    ],
)
def test_a_build_that_fails_says_in_one_line_which_step(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, said: str, words: str
) -> None:
    for name in image.PINNED:
        (tree.root / name).write_text(name)
    events = [{"stream": "Step 1/9 : RUN apt-get update\n"}, {"stream": said}, {"error": "returned a code of 100"}]
    client: Any = SimpleNamespace(api=SimpleNamespace(build=lambda **_: iter(events)))
    with pytest.raises(InfrastructureError, match=words) as failed:
        image.build(client, image.Recipe(tree.root), Quiet())
    assert "\n" not in str(failed.value)


# The image's name in a record


def test_a_run_that_was_not_told_the_images_id_names_its_contents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(environment.IMAGE_VARIABLE, raising=False)
    assert environment.image() is None
    monkeypatch.setenv(environment.IMAGE_VARIABLE, "sha256:0123")
    assert environment.image() == "sha256:0123"
    contents = tmp_path / "contents"
    contents.write_text("torch==2.13.0\n")
    monkeypatch.setenv(environment.IMAGE_VARIABLE, str(contents))
    one = environment.image()
    contents.write_text("torch==2.14.0\n")
    assert one is not None and re.fullmatch(r"contents:[0-9a-f]{64}", one)
    assert environment.image() != one


def test_another_repository_is_mounted_beside_the_code_that_judges_it(tmp_path: Path) -> None:
    """It and the code can be read alone; records can be written."""
    given = sandbox.settings(IMAGE, sandbox.ContainerCommand(tmp_path, ("bench",), gpus=False), 1, 1, 1 << 30)
    mounts = {mount["Target"]: (mount["Source"], mount["ReadOnly"]) for mount in given["mounts"]}
    assert mounts["/tilebench/harness"] == (str(ROOT / "harness"), True)
    assert mounts["/repository"] == (str(tmp_path), True)
    assert mounts["/repository/tuning"] == (str(tmp_path / "tuning"), False)
    assert given["working_dir"] == "/repository"

"""Namespaces: what a process sees in them, how its end is told, and what becomes of what it started."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
from packaging.version import Version

from harness.judge.child import devices
from harness.judge.child.namespaces import MOST_PROCESSES
from harness.records.base import Confinement
from tests.harness.checkout import ROOT

NAMESPACES = "from harness.judge.child import confinement, namespaces"


def python(body: str) -> "subprocess.CompletedProcess[str]":
    program = f"import os, signal, socket, sys, time\n{NAMESPACES}\n{textwrap.dedent(body)}"
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


def said(body: str) -> str:
    done = python(body)
    assert done.returncode == 0, done.stderr
    return done.stdout


def offered() -> bool:
    return said("print(namespaces.offered())").strip() == "True"


pytestmark = pytest.mark.skipif(not offered(), reason="this machine gives no namespaces")


def test_it_sees_itself_alone(tmp_path: Path) -> None:
    shared = Path("/dev/shm") / f"tilebench-{tmp_path.name}"
    shared.write_text("another's")
    try:
        seen = said(
            f"""
            namespaces.enter()
            print(sorted(int(name) for name in os.listdir("/proc") if name.isdigit()), os.getpid(), os.getppid())
            print([name for _, name in socket.if_nameindex()], os.listdir("/dev/shm"), os.getuid() == {os.getuid()})
            try:
                open("/dev/shm/mine", "w")
            except OSError as error:
                print(error.strerror)
            """
        )
    finally:
        shared.unlink()
    assert seen.splitlines() == ["[1, 2] 2 0", "['lo'] [] True", "Read-only file system"]


def test_its_devices_are_those_that_a_compiler_needs() -> None:
    seen = said(
        """
        namespaces.enter()
        print(*sorted(name for name in os.listdir("/dev") if not name.startswith("nvidia")))
        print(open("/dev/zero", "rb").read(1), len(open("/dev/urandom", "rb").read(8)))
        open("/dev/null", "w").write("x")
        sys.stdout.flush()
        os.write(os.open("/dev/stdout", os.O_WRONLY), b"told\\n")
        """
    )
    names = "fd full null random shm stderr stdin stdout tty urandom zero"
    assert seen.splitlines() == [names, r"b'\x00' 8", "told"]


def test_of_several_gpus_only_its_own_has_a_device_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for minor in (0, 1, 10):
        told = tmp_path / f"0000:0{minor}:00.0" / "information"
        told.parent.mkdir()
        told.write_text(f"Model: \t\t NVIDIA H200\nGPU UUID:\t GPU-{minor}\nDevice Minor: \t {minor}\n")
    files = [Path("/dev", f"nvidia{name}") for name in ("0", "1", "10", "ctl", "-uvm", "-caps")]
    monkeypatch.setattr(devices, "_GPUS", tmp_path)
    monkeypatch.setattr(devices, "_of_nvidia", lambda: files)
    for visible, hidden in {"GPU-1": {"0", "10"}, "MIG-1": set(), "0": set()}.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        needed = devices.needed.__wrapped__()
        assert {each for each in files if each not in needed} == {Path("/dev", f"nvidia{name}") for name in hidden}


@pytest.mark.skipif(Version(os.uname().release.split("-")[0]) < Version("6.14"), reason="Linux has no such limit")
def test_a_fork_bomb_takes_no_number_of_the_machine() -> None:
    assert said("namespaces.enter()\nprint(open('/proc/sys/kernel/pid_max').read())").split() == [str(MOST_PROCESSES)]
    assert int(Path("/proc/sys/kernel/pid_max").read_text()) > MOST_PROCESSES


def test_it_changes_no_mode_of_a_file_but_in_its_scratch(tmp_path: Path) -> None:
    scratch, source = tmp_path / "scratch", tmp_path / "source.py"
    scratch.mkdir()
    source.write_text("mine")
    seen = said(
        f"""
        from pathlib import Path
        scratch, source = Path({str(scratch)!r}), Path({str(source)!r})
        namespaces.enter((scratch,))
        (scratch / "mine.txt").write_text("x")
        (scratch / "mine.txt").chmod(0o755)
        for change in (lambda: source.chmod(0o777), lambda: os.utime(source, (0, 0)), lambda: source.write_text("x")):
            try:
                change()
            except OSError as error:
                print(error.strerror)
        print(source.read_text(), open("/dev/null", "w").write("x"))
        """
    )
    assert seen.splitlines() == ["Read-only file system"] * 3 + ["mine 1"]


def test_it_knows_its_pid_as_others_see_it() -> None:
    told, mine = said("pid = namespaces.enter()\nprint(pid, os.getpid())").split()
    assert int(told) > 2
    assert mine == "2"


@pytest.mark.parametrize(
    ("end", "code"),
    [("os._exit(0)", 0), ("os._exit(3)", 3), ("os.abort()", -6), ("os.kill(os.getpid(), signal.SIGKILL)", -9)],
)
def test_the_keeper_ends_as_it_did(end: str, code: int) -> None:
    assert python(f"namespaces.enter()\n{end}").returncode == code


def test_what_it_left_behind_is_gone_when_the_keeper_is() -> None:
    body = "namespaces.enter()\nif os.fork():\n    os._exit(0)\nos.setsid()\ntime.sleep(600)"
    before = set(psutil.pids())
    assert python(body).returncode == 0
    left = [each for each in psutil.process_iter() if each.pid not in before and _sleeps(each)]
    assert left == []


def test_it_dies_with_its_keeper() -> None:
    program = f"import time\n{NAMESPACES}\nprint(namespaces.enter(), flush=True)\ntime.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdout is not None
        inner = psutil.Process(int(keeper.stdout.readline()))
        keeper.kill()
    inner.wait(60)


def test_where_linux_gives_none_nothing_changes() -> None:
    refused = """
        namespaces.enter()
        open("/proc/sys/user/max_user_namespaces", "w").write("0")
        print(namespaces.offered(), namespaces.enter(), os.getpid())
        """
    assert said(refused).split() == ["False", "None", "2"]


@pytest.mark.parametrize(
    ("version", "machine", "namespaces", "level"),
    [
        (6, "x86_64", True, Confinement.NAMESPACES),
        (3, "aarch64", True, Confinement.NAMESPACES),
        (2, "x86_64", True, Confinement.LIMITS),
        (6, "x86_64", False, Confinement.SYSTEM_CALLS),
        (5, "x86_64", False, Confinement.LIMITS),
        (6, None, True, Confinement.LIMITS),
        (0, "x86_64", True, Confinement.LIMITS),
    ],
)
def test_the_level_is_the_highest_of_which_all_holds(
    version: int, machine: str | None, namespaces: bool, level: Confinement, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.judge.child import confinement

    monkeypatch.setattr(confinement, "landlock_version", lambda: version)
    monkeypatch.setattr(confinement, "_machine", lambda: machine)
    assert confinement.level(namespaces=namespaces) is level


def _sleeps(process: psutil.Process) -> bool:
    try:
        return NAMESPACES in "".join(process.cmdline())
    except psutil.Error:
        return False

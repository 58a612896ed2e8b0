"""What the ends of processes leave for a user to read: nothing."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from harness.errors import ExitCode, InfrastructureError
from harness.judge import processes
from harness.judge.processes import Contestant, await_ended
from tests.harness.checkout import ROOT


def printed(script: str, folder: Path) -> tuple[str, str]:
    """What a script says on stdout and stderr, run by itself over this checkout."""
    path = folder / "script.py"
    path.write_text(script)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(path)], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr


KILLED_WITH_A_LOCK = """
import multiprocessing
from harness.catalog import gpus
from harness.judge import processes

if __name__ == "__main__":
    processes.start_forkserver(gpus.find("cpu"), None)
    body = "import multiprocessing as m, os; lock = m.get_context('forkserver').RLock(); os.kill(os.getpid(), 9)"
    process = multiprocessing.get_context("forkserver").Process(target=exec, args=(body,))
    process.start()
    process.join()
    print(process.exitcode)
"""


WATCHED_BY_MANY = """
import sys, threading
from harness.catalog import gpus
from harness.judge import processes

def watch(process):
    while process.exitcode is None:
        pass

if __name__ == "__main__":
    processes.start_forkserver(gpus.find("cpu"), None)
    codes = []
    for _ in range(30):
        process = processes.Process(target=sys.exit, args=(3,))
        process.start()
        watchers = [threading.Thread(target=watch, args=(process,)) for _ in range(4)]
        for each in watchers:
            each.start()
        for each in watchers:
            each.join()
        codes.append(process.exitcode)
    print(set(codes))
"""


STOPPED_HALFWAY = """
import multiprocessing, os, signal, socket, sys
from multiprocessing import forkserver
from harness.catalog import gpus
from harness.judge import processes

def exit_code(body):
    process = processes.Process(target=exec, args=(body,))
    process.start()
    process.join()
    return process.exitcode

if __name__ == "__main__":
    processes.start_forkserver(gpus.find("cpu"), None)
    server = forkserver._forkserver
    os.kill(server._forkserver_pid, signal.SIGINT)  # while it imports torch
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(server._forkserver_address)
    for sent in (b"", b"\\x80"):  # of what a child needs
        status, data = forkserver.connect_to_new_process([])
        os.write(data, sent)
        os.close(data)
        forkserver.read_signed(status)
        print(forkserver.read_signed(status))
    print(exit_code("import os, signal; os.kill(os.getpid(), signal.SIGINT); raise SystemExit(3)"))
"""


ASKED_BY_ANOTHER = """
import os, socket, subprocess, sys
from multiprocessing import forkserver, reduction
from harness.catalog import gpus
from harness.judge import processes

def ask(address):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(address)
        (ours, theirs), nothing = os.pipe(), os.open(os.devnull, os.O_RDONLY)
        reduction.sendfds(client, [nothing, theirs, nothing, nothing])
        os.close(theirs)
        print("asked:", os.read(ours, 8), flush=True)  # a PID, if a child was started

if __name__ == "__main__":
    if len(sys.argv) > 1:
        ask(sys.argv[1])
    else:
        processes.start_forkserver(gpus.find("cpu"), None)
        address = forkserver._forkserver._forkserver_address.replace("self", str(os.getpid()))
        subprocess.run([sys.executable, __file__, address], check=True)
        process = processes.Process(target=sys.exit, args=(3,))
        process.start()
        process.join()
        print("exit code", process.exitcode)
"""


def test_the_forkserver_serves_no_process_but_the_run(tmp_path: Path) -> None:
    assert printed(ASKED_BY_ANOTHER, tmp_path) == ("asked: b''\nexit code 3\n", "")


def test_a_run_that_stops_while_it_starts_a_child_leaves_no_traceback(tmp_path: Path) -> None:
    assert printed(STOPPED_HALFWAY, tmp_path) == ("1\n1\n3\n", "")


@pytest.mark.slow
def test_threads_that_watch_one_process_all_learn_how_it_ended(tmp_path: Path) -> None:
    assert printed(WATCHED_BY_MANY, tmp_path) == ("{3}\n", "")


UNREACHABLE = """
import os, re, socket
from multiprocessing import forkserver
from pathlib import Path
from harness.catalog import gpus
from harness.judge import processes

def reached(path):
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0

if __name__ == "__main__":
    for _ in range(2):
        processes.start_forkserver(gpus.find("cpu"), None)
        server = forkserver._forkserver
        names = re.findall(r"(\\S*/listener-\\S+)", Path("/proc/net/unix").read_text())
        mine = [name for name in names if name.startswith(processes._choose_folder_of_sockets())]
        print(len(mine), any(map(reached, mine)), reached(server._forkserver_address))
        os.kill(server._forkserver_pid, 9)
        os.waitid(os.P_PID, server._forkserver_pid, os.WEXITED | os.WNOWAIT)
"""


def test_no_name_leads_to_the_forkserver_nor_to_the_one_after_it(tmp_path: Path) -> None:
    assert printed(UNREACHABLE, tmp_path) == ("1 False True\n1 False True\n", "")


@pytest.mark.slow
def test_a_killed_process_leaves_no_warning_of_what_its_libraries_held(tmp_path: Path) -> None:
    assert printed(KILLED_WITH_A_LOCK, tmp_path) == ("-9\n", "")


def test_a_reader_that_leaves_is_told_nothing() -> None:
    """As ``tilebench leaderboard | head`` does."""
    command = [sys.executable, "-m", "harness", "leaderboard", "--gpu", "h200"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == ExitCode.PASSED


def test_a_second_end_closes_no_file_of_another_thread(tmp_path: Path) -> None:
    ended = Contestant.__new__(Contestant)
    ended.scratch = tmp_path / "scratch"
    ended.scratch.mkdir()
    ended._descriptors = [os.open(tmp_path, os.O_RDONLY)]
    ended._tidy()
    with (tmp_path / "of_another_thread").open("w") as file:  # takes the lowest free number: the one just closed
        ended._tidy()
        file.write("still open")
    assert (tmp_path / "of_another_thread").read_text() == "still open"


def test_no_measurement_begins_beside_a_process_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "END_DEADLINE_S", 0.0)
    left = subprocess.Popen(["sleep", "600"], start_new_session=True)
    younger = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        processes._ended.update({left.pid: time.time() + 60, younger.pid: 1.0})
        with pytest.raises(InfrastructureError, match=f"process {left.pid} of an earlier measurement does not end"):
            await_ended()
        left.kill()
        left.wait()
        await_ended()
        assert not {left.pid, younger.pid} & processes._ended.keys()
    finally:
        for each in (left, younger):
            each.kill()
            each.wait()


HOLDS = """
import os, subprocess, sys, time
if len(sys.argv) == 1:
    held = os.memfd_create("held")
    for _ in range(48):
        os.write(held, bytes(1 << 20))
    child = subprocess.Popen([sys.executable, __file__, "child"])
else:
    held = bytearray(os.urandom(1 << 20) * 64)
print("held", flush=True)
time.sleep(60)
"""


def test_memory_counts_children_and_files_without_a_name(tmp_path: Path) -> None:
    (tmp_path / "holds.py").write_text(HOLDS)
    with subprocess.Popen([sys.executable, tmp_path / "holds.py"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["held\n"] * 2
        try:
            assert 48 << 20 < processes.memory_bytes(process.pid) - (64 << 20) < 96 << 20
        finally:
            for each in psutil.Process(process.pid).children():
                each.kill()
            process.kill()


def test_those_that_build_at_once_share_the_memory() -> None:
    assert processes.memory_limit_bytes(4) == processes.memory_limit_bytes() // 4

"""Programs that start with steady addresses and hashes, and work in memory of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.judge.steady_addresses import NO_RANDOM_ADDRESSES, SEED, in_memory_of_its_own, steady
from tests.harness.checkout import ROOT

# Where its code, its heap and a string's hash are.
WHERE = "import ctypes; print(id(object), ctypes.addressof(ctypes.c_int()), hash('one'))"


def started() -> str:
    return subprocess.run([sys.executable, "-c", WHERE], capture_output=True, text=True, check=True).stdout


def test_what_starts_meanwhile_has_the_same_addresses_each_time() -> None:
    with steady():
        if not int(Path("/proc/self/personality").read_text(), 16) & NO_RANDOM_ADDRESSES:
            pytest.skip("this system refuses steady addresses")
        assert len({started() for _ in range(4)}) == 1
    assert len({started() for _ in range(4)}) > 1


@pytest.mark.parametrize("before", [None, "7"])
def test_the_seed_of_hashes_is_what_it_was(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SEED, raising=False)
    if before is not None:
        monkeypatch.setenv(SEED, before)
    with steady():
        assert os.environ[SEED] == "0"
    assert os.environ.get(SEED) == before


def test_work_in_memory_of_its_own_gives_its_result() -> None:
    assert in_memory_of_its_own(lambda: 42) == 42


def test_such_work_alone_hears_a_signal() -> None:
    """In a program without other threads; ``faulthandler`` writes the stack of the thread that hears it."""
    script = """
import faulthandler, os, signal
from harness.judge.steady_addresses import in_memory_of_its_own

def asked():
    os.kill(os.getpid(), signal.SIGUSR1)

faulthandler.register(signal.SIGUSR1, all_threads=False)
in_memory_of_its_own(asked, {signal.SIGUSR1})
print(signal.SIGUSR1 in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "in asked" in done.stderr
    assert done.stdout == "False\n"

"""A process has a name of its own, which ends with it."""

import os
import subprocess
import sys

from harness.machine.identity import lives, living
from tests.harness.checkout import until


def test_a_name_ends_with_its_process() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        name = living(process.pid)
        assert name is not None and lives(name)
        assert name == living(process.pid) != living(os.getpid())
        process.kill()
        assert until(lambda: living(process.pid) is None, 10)  # a zombie
        process.wait()
        assert not lives(name)


def test_another_process_of_the_same_number_is_not_it() -> None:
    assert not lives(f"{os.getpid()} 1")
    assert not lives("none")

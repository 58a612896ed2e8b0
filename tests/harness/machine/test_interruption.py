"""Signals: after the program's answer they change nothing."""

import subprocess
import sys

SCRIPT = """
import atexit, os, signal, sys
atexit.register(os.kill, os.getpid(), signal.SIGINT)
sys.argv = ["tilebench", "--version"]
from harness.cli import main
main()
"""


def test_one_more_signal_at_the_exit_cuts_nothing_short() -> None:
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")

"""What an iteration may import: the program it returns, and the two commands it answers to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.judge.facts.problem import DTYPE_BYTES, Problem
from harness.judge.facts.program import Program, Workspace

__all__ = ["DTYPE_BYTES", "Problem", "Program", "Workspace", "bench_with", "main", "verify_with"]


def verify_with(build: Callable[[Problem], Any]) -> bool:
    """Judge the iteration that ``build`` stands in, up to its verification; print and return the verdict."""
    return _judged(build, "verify")


def bench_with(build: Callable[[Problem], Any]) -> bool:
    """Judge the iteration that ``build`` stands in, measurement included; print its lines and return the verdict."""
    return _judged(build, "bench")


def main(path: str) -> None:
    """What an iteration does when it is run by hand: the harness judges the file, prints, and sets the exit code.

    The lines are those of the contract, ``VERIFY: PASS …`` or ``VERIFY: FAIL max_abs_err=<v>``, then
    ``TFLOPS: <value> time_ms: <value>``; the record joins the others.
    """
    from harness.runs.by_hand import run_by_hand

    run_by_hand(Path(path))


def _judged(build: Callable[[Problem], Any], upto: str) -> bool:
    from harness.runs.by_hand import judge

    return judge(Path(build.__code__.co_filename), upto)

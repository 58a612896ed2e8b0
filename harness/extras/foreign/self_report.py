"""Run a script as its user would, confined, and read the figures that it prints of itself."""

import re
import runpy
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from harness.errors import printable
from harness.extras.foreign.record import SelfReport
from harness.extras.foreign.results import positive
from harness.judge.child.body import child_body
from harness.judge.child.brief import Brief
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem, parse_shape_key
from harness.judge.messages import Message, send
from harness.judge.places import UserCode
from harness.judge.processes import Contestant, Ended

MOST_OUTPUT_BYTES: Final = 1 << 22
_NUMBER: Final = r"\s*[:=]\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)"
_VERDICT: Final = re.compile(r"\bVERIFY\s*:\s*(PASS|FAIL)", re.IGNORECASE)
_TIME: Final = re.compile(rf"\btime_ms{_NUMBER}", re.IGNORECASE)
_TFLOPS: Final = re.compile(rf"\bTFLOPS{_NUMBER}", re.IGNORECASE)
_ANY_PROBLEM: Final = parse_shape_key("matmul_f32fp32_16x16x16")  # a brief needs one; the script does not learn it


class ScriptFinished(Message, frozen=True):
    """The script ended by itself; ``reason`` says how it failed."""

    reason: str | None


def run_script(brief: Brief, referee: Connection, parent: Connection) -> None:
    """Body of the process: ``python script.py``, able to write to a scratch folder only."""
    from harness.judge.child.failure import located
    from harness.judge.child.setup import set_up_contestant

    reason: str | None = None
    with child_body(brief, parent, set_up=set_up_contestant):
        sys.argv = [str(brief.path)]
        sys.path.insert(0, str(brief.path.parent))
        try:
            runpy.run_path(str(brief.path), run_name="__main__")
        except SystemExit as error:
            reason = None if error.code in (None, 0) else f"it exited with {printable(str(error.code), 200)}"
        except BaseException as error:
            reason = located(error, UserCode(brief.path, brief.root))
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        send(parent, ScriptFinished(reason))


class ScriptProcess(Contestant):
    """The process of one script."""

    body = staticmethod(run_script)


def self_report(
    tree: Path, path: Path, problem: Problem | None, gpu: Gpu, deadline_s: float
) -> tuple[SelfReport, str | None]:
    """The figures of a script, and how it failed, if it did; the script may import from ``tree``."""
    process = ScriptProcess(tree, path, problem or _ANY_PROBLEM, gpu)
    try:
        finished: ScriptFinished = process.hear(ScriptFinished, deadline_s)
        reason = finished.reason
    except Ended as ended:
        reason = ended.reason.replace(f"the {process.role}", "it", 1)
    finally:
        report = figures(process.output(MOST_OUTPUT_BYTES))
        process.end()
    return report, reason


def figures(text: str) -> SelfReport:
    verdicts = _VERDICT.findall(text)
    return SelfReport(verdicts[-1].upper() == "PASS" if verdicts else None, _last(_TIME, text), _last(_TFLOPS, text))


def _last(pattern: re.Pattern[str], text: str) -> float | None:
    values = (positive(number) for number in reversed(pattern.findall(text)))
    return next((value for value in values if value is not None), None)

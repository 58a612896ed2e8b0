"""A record measured again agrees, differs, or leaves it open; then it says which budget would not."""

import math
import subprocess

import msgspec
import pytest

from harness.boards.reproduction import Agreement, RecordedCode, Reproduction, again, find_record, judge, line
from harness.catalog.tree import Tree
from harness.errors import InfrastructureError, UsageError
from harness.judge.statistics import PROCESS_HALF_WIDTH
from harness.records.store import append, read
from harness.records.sustained import SustainedRecord
from tests.harness.checkout import ROOT
from tests.harness.examples import ENVIRONMENT, measurement, record, sustained, sustained_record


def judged(
    before: float, after: float, *, widths: tuple[float, float], chip: str = "", seconds: float = 2.0
) -> Reproduction:
    """A verdict for two ratios with intervals of these relative half-widths."""
    ours, theirs = (
        measurement(ratio / math.exp(width), ratio * math.exp(width), ratio=ratio, seconds=2.0)
        for ratio, width in zip((before, after), widths, strict=True)
    )
    where = msgspec.structs.replace(ENVIRONMENT, device_uuid=chip) if chip else ENVIRONMENT
    found = RecordedCode(record(measurement=ours), ROOT, "the working tree")
    return judge(found, record(measurement=theirs, environment=where))


def test_a_narrow_interval_around_1_agrees() -> None:
    found = judged(1.1, 1.101, widths=(0.002, 0.002))
    assert (found.verdict, found.agrees, found.decides_s) == (Agreement.AGREES, True, None)
    assert line(found) == "agrees: +0.09% [-0.19, +0.37]"


def test_an_interval_that_leaves_out_1_differs() -> None:
    found = judged(1.1, 1.12, widths=(0.002, 0.002))
    assert (found.verdict, found.agrees) == (Agreement.DIFFERS, False)


def test_a_wide_interval_that_holds_1_decides_nothing() -> None:
    """As it was seen: +2.88% within [0.90, 1.04] was called agreement."""
    found = judged(1.0, 1.0288, widths=(0.001, 0.06))
    assert (found.verdict, found.agrees) == (Agreement.UNDECIDED, False)
    assert found.decides_s is not None and found.decides_s > 2.0
    assert line(found).endswith(f"--budget {found.decides_s:g} would decide")


@pytest.mark.parametrize("after", [1.0005, 1.004, 1.0288])
def test_the_budget_that_it_names_decides(after: float) -> None:
    undecided = judged(1.0, after, widths=(0.001, 0.06))
    assert undecided.decides_s is not None
    noise = math.sqrt(0.06**2 - PROCESS_HALF_WIDTH**2) * math.sqrt(2.0 / undecided.decides_s)
    assert judged(1.0, after, widths=(0.001, math.hypot(noise, PROCESS_HALF_WIDTH))).verdict is not Agreement.UNDECIDED
    slightly_less = math.hypot(1.2 * noise, PROCESS_HALF_WIDTH)
    assert judged(1.0, after, widths=(0.001, slightly_less)).verdict is Agreement.UNDECIDED


def test_no_budget_mends_the_records_own_interval() -> None:
    found = judged(1.0, 1.001, widths=(0.05, 0.05))
    assert (found.verdict, found.decides_s) == (Agreement.UNDECIDED, None)
    assert "too wide for any budget" in line(found)


def test_another_chip_may_differ_by_the_spread_of_chips() -> None:
    assert judged(1.0, 1.012, widths=(0.002, 0.002)).verdict is Agreement.DIFFERS
    assert judged(1.0, 1.012, widths=(0.002, 0.002), chip="another").verdict is Agreement.AGREES
    assert judged(1.0, 1.05, widths=(0.002, 0.002), chip="another").verdict is Agreement.DIFFERS


@pytest.mark.parametrize(
    ("after", "half", "verdict"), [(1.042, 0.003, "agrees"), (1.06, 0.003, "differs"), (1.045, 0.02, "undecided")]
)
def test_a_record_at_the_power_limit_is_compared_there(after: float, half: float, verdict: str) -> None:
    figures = msgspec.structs.replace(sustained(after), ratio_low=after - half, ratio_high=after + half)
    original, measured = sustained_record(record(), 1.04), sustained_record(record(), after, measurement=figures)
    found = judge(RecordedCode(original, ROOT, "the working tree"), record(), measured)
    assert (found.verdict, found.original, found.again_sustained) == (verdict, original.id, measured)
    assert found.quotient == pytest.approx(after / 1.04)
    assert found.agrees == (verdict == "agrees")
    assert "--budget" not in line(found)  # none can be given there


def test_the_regimes_are_not_compared_with_each_other() -> None:
    found = judge(RecordedCode(sustained_record(record(), 1.04), ROOT, "the working tree"), record())
    assert found.why is not None and "different regimes" in found.why


def test_a_record_at_the_power_limit_is_measured_in_both_regimes(monkeypatch: pytest.MonkeyPatch) -> None:
    original, paired = sustained_record(record(), 1.04), record()
    asked: list[list[str]] = []

    def run(words: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        asked.append(words)
        said = {"data": {"records": [paired], "sustained": held}}
        return subprocess.CompletedProcess(words, 0, msgspec.json.encode(said))

    monkeypatch.setattr("harness.boards.reproduction.subprocess.run", run)
    held = [sustained_record(paired, 1.1, opponent="another"), sustained_record(paired, 1.05)]
    code = RecordedCode(original, ROOT, "the working tree")
    assert again(code, in_image=False) == (paired, held[1])
    assert asked[0][-2:] == ["--regime", "both"]
    assert again(RecordedCode(paired, ROOT, ""), in_image=False) == (paired, None)
    assert asked[1][-2:] == ["--regime", "paired"]
    held = []
    with pytest.raises(InfrastructureError, match="nothing was measured at the power limit"):
        again(code, in_image=False)


def test_a_record_at_the_power_limit_is_found_by_its_id(tree: Tree) -> None:
    made = record()
    at_limit = sustained_record(made, 1.04)
    append(tree.records("cpu", made.shape_key, "me"), made)
    append(tree.sustained("cpu", made.shape_key, "me"), sustained_record(made, 1.1, opponent="another"))
    append(tree.sustained("cpu", made.shape_key, "me"), at_limit)
    at_limit = read(tree.sustained("cpu", made.shape_key, "me"), SustainedRecord)[0][1]
    assert find_record(tree, at_limit.id[:7]) == at_limit
    assert find_record(tree, made.id) == made
    assert find_record(tree, str(tree.sustained("cpu", made.shape_key, "me"))) == at_limit


def test_an_opponent_s_record_is_not_reproduced(tree: Tree) -> None:
    made = record(model="opponents", iteration="quack", measurement=measurement(1.0, 1.1))
    append(tree.opponents("cpu", made.shape_key), made)
    with pytest.raises(UsageError, match="is of opponent quack, and reproduce measures iterations"):
        find_record(tree, made.id)


def test_what_cannot_be_compared_has_no_verdict() -> None:
    found = RecordedCode(record(), ROOT, "the working tree")
    made = judge(found, record(measurement=None))
    assert (made.verdict, made.agrees) == (None, False)
    assert line(made).startswith("not reproduced: ")

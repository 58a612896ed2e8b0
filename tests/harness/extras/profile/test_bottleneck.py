"""The rules: two kernels of an H200, rows made for each bound, and the table in the documentation."""

from pathlib import Path

import msgspec
import pytest

from harness.extras.profile import bottleneck
from harness.extras.profile.advice import TABLE
from harness.extras.profile.bottleneck import RULES, THRESHOLDS, Bottleneck, Load, decide, find_bottleneck
from harness.extras.profile.figures import FIGURES, Figures
from harness.judge.facts.problem import parse_shape_key
from harness.records.profiles import Bound, Confidence
from tests.harness.extras.profile.reports import PERSISTENT, STOCK, h200, problem, read_figures

DOCS = Path(__file__).resolve().parents[4] / "docs" / "reference" / "profile.md"


def verdict(figures: Figures) -> Bottleneck:
    return find_bottleneck(figures, problem(), h200())


def test_the_stock_kernel_is_bound_by_the_tensor_pipe_but_not_far_from_shared_memory() -> None:
    found = verdict(read_figures(STOCK))
    assert (found.bound, found.limiter) == (Bound.COMPUTE, "tensor pipe")
    assert found.confidence is Confidence.MEDIUM, "77% against 63%: five points more or less and it is mixed"


def test_the_persistent_kernel_saturates_the_tensor_pipe() -> None:
    found = verdict(read_figures(PERSISTENT))
    assert (found.bound, found.confidence, found.limiter) == (Bound.COMPUTE, Confidence.HIGH, "tensor pipe")
    evidence = "\n".join(found.evidence)
    assert "tensor pipe 91%" in evidence
    assert "783.9 TFLOPS" in evidence, "137 Gflop in 175.3 µs"
    assert "801 flop per DRAM byte against a ridge of 206: right of the ridge" in evidence


def test_a_kernel_without_flops_stands_under_the_bandwidth() -> None:
    copy = parse_shape_key("copy_bf16fp32_33280x1024")
    evidence = "\n".join(find_bottleneck(read_figures(PERSISTENT), copy, h200()).evidence)
    assert "0 flop per DRAM byte against a ridge of 206: left of it, where DRAM is the roof; 978.6" in evidence
    assert " GB/s, 20% of that roof" in evidence, "4.8 TB/s"


def test_few_warps_are_no_sign_of_a_bound_where_tma_feeds_wgmma() -> None:
    evidence = "\n".join(verdict(read_figures(PERSISTENT)).evidence)
    assert "14% of the warps an SM can hold: normal for TMA and WGMMA, and no sign of a bound" in evidence
    other = "\n".join(verdict(read_figures(PERSISTENT, wgmma_pct=0, tma_pct=0)).evidence)
    assert "1 blocks fit an SM, by registers" in other


@pytest.mark.parametrize(
    ("figures", "bound", "limiter"),
    [
        # linear 64x8192x8192 at 3.7 TB/s
        ({"tensor_pct": 25, "sm_pct": 25, "dram_pct": 77, "l2_pct": 55, "shared_pct": 30}, Bound.MEMORY, "DRAM"),
        ({"tensor_pct": 40, "sm_pct": 40, "dram_pct": 20, "l2_pct": 85, "shared_pct": 50}, Bound.MEMORY, "L2"),
        (
            {"tensor_pct": 60, "sm_pct": 60, "dram_pct": 20, "l2_pct": 50, "shared_pct": 90},
            Bound.MEMORY,
            "shared memory",
        ),
        ({"tensor_pct": 0, "sm_pct": 88, "fma_pct": 88, "shared_pct": 40}, Bound.COMPUTE, "FMA pipe"),
        ({"tensor_pct": 70, "sm_pct": 70, "dram_pct": 72, "shared_pct": 40}, Bound.MIXED, "DRAM"),
        ({"tensor_pct": 45, "sm_pct": 45, "dram_pct": 15, "l2_pct": 30, "shared_pct": 40}, Bound.LATENCY, None),
        # a kernel of five microseconds: half of it is start and end
        (
            {
                "tensor_pct": 40,
                "sm_pct": 40,
                "l2_pct": 30,
                "shared_pct": 30,
                "active_cycles": 5000,
                "elapsed_cycles": 9000,
            },
            Bound.LAUNCH,
            None,
        ),
    ],
)
def test_each_bound(figures: dict[str, float], bound: Bound, limiter: str | None) -> None:
    found = verdict(read_figures(STOCK, **figures))
    assert (found.bound, found.limiter) == (bound, limiter)


def test_a_verdict_is_as_sure_as_its_figures_are_far_from_another() -> None:
    def sure(tensor: float, shared: float) -> Confidence:
        return verdict(read_figures(STOCK, tensor_pct=tensor, sm_pct=tensor, shared_pct=shared)).confidence

    assert sure(90, 60) is Confidence.HIGH
    assert sure(77, 62) is Confidence.MEDIUM
    assert sure(77, 66) is Confidence.LOW, "a point from being mixed"
    assert sure(58, 30) is Confidence.LOW, "two points from being compute-bound"


def test_a_missing_figure_lowers_the_confidence() -> None:
    found = verdict(read_figures(PERSISTENT, l2_pct=None))
    assert (found.bound, found.confidence) == (Bound.COMPUTE, Confidence.LOW)


def test_without_shares_there_is_no_verdict() -> None:
    missing = dict.fromkeys(("dram_pct", "l2_pct", "shared_pct"))
    found = verdict(read_figures(PERSISTENT, **missing))
    assert found.bound is None
    assert found.evidence[0] == "no share of memory levels was counted, so no rule applies"


def test_the_hmma_metric_decides_nothing() -> None:
    """It shows 1.4% of a kernel that keeps the tensor pipe busy 91% of the time."""
    assert not any("op_hmma" in source.metric for source in FIGURES.values())


def test_every_load_has_a_bound_and_every_rule_can_decide() -> None:
    steps = range(0, 101, 5)
    decided = {decide(Load(compute, memory, active)) for compute in steps for memory in steps for active in steps}
    assert decided == {rule.bound for rule in RULES} == set(Bound) - {Bound.POWER}  # records decide that one


def test_a_moved_threshold_moves_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is what decides: nothing holds a number of its own."""
    load = Load(compute=70, memory=30, active=95)
    assert decide(load) is Bound.COMPUTE
    monkeypatch.setattr(bottleneck, "BUSY", bottleneck.Threshold(75, "", ""))
    assert decide(load) is Bound.LATENCY


def test_the_documentation_has_the_table_as_it_is() -> None:
    said = DOCS.read_text()
    for name, threshold in THRESHOLDS.items():
        assert f"| {name} | {threshold.value} | {threshold.means} | {threshold.source} |" in said
    for number, rule in enumerate(RULES, start=1):
        assert f"| {number} | {rule.when} | {rule.bound} |" in said
    for name, source in FIGURES.items():
        assert f"| {name} | `{source.metric}` | {source.tells} |" in said
    for bound, ideas in TABLE.items():
        assert f"| {bound} | {', '.join(idea.__name__.replace('_', ' ') for idea in ideas)} |" in said


def test_a_verdict_survives_its_record() -> None:
    found = verdict(read_figures(STOCK))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Bottleneck) == found

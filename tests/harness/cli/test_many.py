"""The command line that a worker gets means what the user's means, for one problem."""

from dataclasses import replace
from typing import Any, NoReturn

import pytest

from harness.boards.reproduction import find_record
from harness.catalog.tree import Tree
from harness.cli.app import app, carry_out
from harness.cli.options import FleetOptions, SelectionOptions
from harness.errors import ExitCode, UsageError
from harness.extras.fleet import driver
from harness.records.base import Stage
from tests.harness.checkout import ROOT, one_line

SHAPE = "matmul_bf16fp32_8192x8192x8192"
ON_CLUSTER = ("--gpu", "h200", "--cluster", "ray://head", "--slow-gpus")


def meant(words: tuple[str, ...]) -> dict[str, Any]:
    """What a verb is given, but where it runs and how it answers."""
    _, bound, _ = app.parse_args(words)
    bound.apply_defaults()
    given = dict(bound.arguments) | {"fleet": FleetOptions(), "traceback": False}
    assert isinstance(given["chosen"], SelectionOptions)
    return given | {"chosen": replace(given["chosen"], gpu="h200", shape=SHAPE, share=None)}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[driver.Fleet]:
    """The fleets that are asked for; none begins."""
    found: list[driver.Fleet] = []

    def run(fleet: driver.Fleet) -> NoReturn:
        found.append(fleet)
        raise UsageError("asked")

    monkeypatch.setattr(driver, "run", run)
    return found


@pytest.mark.parametrize(
    ("words", "upto"),
    [
        (("verify", "--again", "--share", "1/1"), Stage.VERIFY),
        (("bench", "--budget=2.5", "--deadline=7", "--opponents", "--regime=both", "--sustained-top=1"), Stage.BENCH),
        (("build", "--model=tilebench", "--iter=1", "--build-deadline=9", "--attempts=2"), Stage.BUILD),
        (("profile", "--no-counters", "--again", "--deadline=60", "--iter=1", "--model=tilebench"), Stage.BENCH),
        (("tune", "--model=me", "--family=a", "--family=b", "--no-screen", "--parent=iter001"), Stage.BENCH),
        (("foreign", str(ROOT / "tuning/h200"), "--script-deadline=9", "--budget=2", "--again"), Stage.BENCH),
        (("tune", "--model=me", "--engine=tilelang", "--no-check", "--rep=9", "--objective=paired"), Stage.BENCH),
    ],
)
def test_a_worker_is_told_what_the_user_said(
    words: tuple[str, ...], upto: Stage, asked: list[driver.Fleet], capsys: pytest.CaptureFixture[str]
) -> None:
    image = None if words[0] == "foreign" else "judge"
    said = (*words, *ON_CLUSTER, "--shape", SHAPE, *(() if image is None else ("--image", image)))
    assert carry_out(said) is ExitCode.USAGE
    assert one_line(capsys.readouterr().err).endswith("asked")
    (fleet,) = asked
    told = fleet.words_for(SHAPE)
    assert told[:2] == driver.HARNESS
    assert told[2] == words[0]
    assert meant(told[2:]) == meant(said)
    assert (fleet.plan.upto, fleet.address, fleet.slow, fleet.image) == (upto, "ray://head", True, image)
    problems = fleet.errands or [each.problem for each in fleet.plan.iterations]
    assert {each.shape_key for each in problems} == {SHAPE}


def test_foreign_scripts_are_not_in_an_image(capsys: pytest.CaptureFixture[str]) -> None:
    said = ("foreign", str(ROOT / "tuning/h200"), *ON_CLUSTER, "--image", "judge")
    assert carry_out(said) is ExitCode.USAGE
    assert one_line(capsys.readouterr().err).endswith("leave --image out")


def test_a_record_is_measured_again_on_any_gpu_of_its_key(
    asked: list[driver.Fleet], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray://head")
    path = max((ROOT / "tuning/h200/tilelang/logs" / SHAPE).glob("*/results.jsonl"))
    newest = find_record(Tree(ROOT), str(path))
    assert carry_out(("reproduce", str(path), "--on=any", "--budget=5")) is ExitCode.USAGE
    assert one_line(capsys.readouterr().err).endswith("asked")
    (fleet,) = asked
    assert fleet.words_for(SHAPE) == (*driver.HARNESS, "reproduce", newest.id, "--budget=5.0")
    assert (fleet.plan.gpu.key, fleet.address, fleet.most) == ("h200", "ray://head", None)

"""An iteration is measured alike, whoever measures it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.boards import play_off
from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.cli import compare
from harness.cli.options import BuildOptions, MeasureOptions, SelectionOptions
from harness.extras.selftest import agreement, sensitivity
from harness.judge.candidate import Referees, Settings
from harness.judge.facts.gpu import Gpu
from harness.machine.progress import Quiet
from harness.records.base import Stage
from harness.runs import by_hand
from tests.harness.checkout import BASELINE, SHAPE

CPU, H200 = gpus.find("cpu"), gpus.find("h200")


class Told(Exception):
    """The settings that a measurement was to be made with."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings


def tell(settings: Settings) -> Any:
    raise Told(settings)


def of_a_script(tree: Tree, gpu: Gpu, patch: pytest.MonkeyPatch) -> None:
    path = tree.folder(gpu.key) / "srcs" / SHAPE / "me" / "iter000_torch_matmul.py"
    path.parent.mkdir(parents=True)
    path.write_text(BASELINE)
    patch.setattr(by_hand, "run", lambda plan, _: tell(plan.settings))
    by_hand._measure(path, Stage.BENCH)


def of_agreement(tree: Tree, gpu: Gpu, patch: pytest.MonkeyPatch) -> None:
    path = tree.folder(gpu.key) / "srcs" / SHAPE / "me" / "iter000_torch_matmul.py"
    patch.setattr(agreement, "start_forkserver", lambda *_: None)
    patch.setattr(Referees, "seat", lambda *_: None)
    patch.setattr(agreement, "Candidate", lambda *arguments: tell(arguments[4]))
    list(agreement.repeat(tree, gpu, None, [tree.parse(path)], 1, Quiet()))


def of_sensitivity(tree: Tree, gpu: Gpu, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sensitivity, "sample_judge", lambda *arguments: tell(arguments[4]))
    sensitivity.compare(tree, gpu, None, SHAPE, 0.01, 2, Quiet())


def of_a_play_off(tree: Tree, gpu: Gpu, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(play_off, "hold", lambda plan, *_: tell(plan.settings))
    patch.setenv("TILEBENCH_ROOT", str(tree.root))
    compare.play(SelectionOptions(gpu=gpu.key, shape=SHAPE))


@pytest.mark.parametrize("gpu", [CPU, H200], ids=lambda gpu: gpu.key)
@pytest.mark.parametrize("measure", [of_a_script, of_agreement, of_sensitivity, of_a_play_off])
def test_whoever_measures_makes_the_rounds_and_launches_of_a_bench(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, measure: Callable[[Tree, Gpu, pytest.MonkeyPatch], None], gpu: Gpu
) -> None:
    monkeypatch.setattr(gpus, "resolve", lambda *_, **__: (gpu, None))
    with pytest.raises(Told) as told:
        measure(tree, gpu, monkeypatch)
    benched, settings = MeasureOptions().settings(gpu), told.value.settings
    assert settings.rounds_per_placement == benched.rounds_per_placement
    assert settings.min_launches == benched.min_launches
    assert settings.min_placements == benched.min_placements
    assert measure is of_a_play_off or settings == benched  # a play-off has a budget of its own


def test_a_bench_makes_what_the_documentation_says() -> None:
    page = Path(__file__).parents[3] / "docs" / "explanation" / "measurement.md"
    documented = " ".join(page.read_text().split())
    assert "After 6 rounds (2 on a CPU)" in documented and "50 launches (16)" in documented
    for gpu, extent in ((H200, (3.0, 6, 50)), (CPU, (0.5, 2, 16))):
        for settings in (Settings.of(gpu), MeasureOptions().settings(gpu), BuildOptions().settings(gpu)):
            assert (settings.budget_s, settings.rounds_per_placement, settings.min_launches) == extent


@pytest.mark.parametrize("options", [MeasureOptions, BuildOptions])
def test_again_is_to_compile_again_too(options: type[BuildOptions]) -> None:
    assert options(again=True).settings(H200).again
    assert not options().settings(H200).again

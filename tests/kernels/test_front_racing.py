"""First calls with ``TILEBENCH_TUNE=1``: what races, what wins, what is kept; and layers of many sizes."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.errors import UsageError
from harness.judge.facts.problem import Problem, parse_shape_key
from kernels import linear, warm_up
from kernels.front import eager, launches, racing
from kernels.front.choice import Choice
from kernels.front.defaults import ONLY_TILES
from kernels.front.launches import SIZES, launch_of
from kernels.front.library import library_of
from kernels.front.places import Place, place
from kernels.front.racing import SECONDS, TUNE, contenders, raced
from kernels.front.timing import Launch, race_on_cpu, ratio

CPU = torch.device("cpu")
KEY = "linear_f32fp32_48x32x64"
PROBLEM = parse_shape_key(KEY)
HOPPER = Place(torch.device("cuda", 0), "h200", "sm_90a", 132)


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Races are on and begin anew, between two contenders that compile."""
    monkeypatch.setenv(TUNE, "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(launches, "_launches", {})
    monkeypatch.setattr(eager, "_known", {})
    every = contenders(PROBLEM, place(CPU))
    monkeypatch.setattr(racing, "contenders", lambda problem, where: every[:2])
    return racing.path()


def say(monkeypatch: pytest.MonkeyPatch, **ratios: tuple[float, float]) -> None:
    """Have a race end with these ratios, by the contenders' numbers."""
    named = {name.removeprefix("of_"): each for name, each in ratios.items()}
    monkeypatch.setattr(racing, "race_on_cpu", lambda problem, launches: {"ratios": named})


def test_the_first_of_a_race_is_taken_and_kept(
    tuned: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    say(monkeypatch, of_0=(1.2, 0.01), of_1=(1.3, 0.01))
    a, w = torch.randn(48, 64), torch.randn(32, 64)
    assert torch.allclose(linear(a, w), a @ w.t(), atol=1e-4)
    said = capsys.readouterr().err
    assert f"tilebench: {KEY}: kernels.cpu.register_blocked: first of 2 kernels raced here, 1.3000 ± 0.0100" in said
    assert str(tuned) in said
    monkeypatch.setattr(racing, "_race", None)  # a second process holds no race
    second = contenders(PROBLEM, place(CPU))[1]
    assert launches.choose(PROBLEM, place(CPU)).levers == second.levers
    assert warm_up(KEY)[KEY].startswith("kernels.cpu.register_blocked: first of 2 kernels raced here")


@pytest.mark.parametrize("ratios", [{}, {"of_0": (1.02, 0.03), "of_1": (0.9, 0.001)}])
def test_where_none_is_surely_faster_the_library_is_taken(
    ratios: dict[str, tuple[float, float]], tuned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(monkeypatch, **ratios)
    for _ in range(2):
        found = launches.choose(PROBLEM, place(CPU))
        assert str(found) == "the library: none of 2 kernels raced here was surely faster"


def test_a_winner_of_another_torch_or_code_does_not_hold(tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, of_0=(1.2, 0.01))
    launches.choose(PROBLEM, place(CPU))
    assert len(tuned.read_text().splitlines()) == 1
    with tuned.open("a") as file:
        file.write('{"problem": "torn')
    monkeypatch.setattr(torch, "__version__", "2.0.0")
    launches.choose(PROBLEM, place(CPU))
    monkeypatch.setattr(racing, "_code", lambda: "0" * 64)
    launches.choose(PROBLEM, place(CPU))
    assert len(tuned.read_text().splitlines()) == 4  # the torn line is passed over, and stays


def test_what_does_not_compile_is_left_out_and_with_none_left_the_default_counts(
    tuned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(problem: Problem, choice: Choice, where: Place) -> Launch:
        raise ValueError("no such tile")

    assert raced(PROBLEM, place(CPU), compiled) is None
    assert not tuned.exists()
    monkeypatch.setenv(SECONDS, "1e-9")
    assert raced(PROBLEM, place(CPU), launches._compiled) is None


def test_without_the_setting_nothing_races(tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TUNE)
    assert raced(PROBLEM, place(CPU), launches._compiled) is None


@pytest.mark.parametrize(("name", "given"), [(TUNE, "yes"), (SECONDS, "soon"), (SECONDS, "0"), (SECONDS, "inf")])
def test_a_wrong_setting_has_its_sentence(name: str, given: str, tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, given)
    with pytest.raises(UsageError, match=f"{name} is '{given}'; set it to "):
        launches.choose(PROBLEM, place(CPU))


def test_a_wrong_result_never_wins() -> None:
    right = library_of(PROBLEM)

    def near(a: torch.Tensor, w: torch.Tensor, out: torch.Tensor) -> None:
        right(a, w, out)
        out *= 1 + 1e-4

    wrong: Mapping[str, Launch] = {
        "zeros": lambda a, w, out: out.zero_(),
        "idle": lambda a, w, out: None,
        "near": near,
    }
    record = race_on_cpu(PROBLEM, {"right": right, **wrong})
    assert list(record["ratios"]) == ["right"]


def test_a_ratio_is_the_median_of_its_rounds() -> None:
    middle, half = ratio([2.0, 2.0, 4.0, 2.2], [1.0, 1.0, 2.0, 1.0])
    assert middle == 2.0
    assert 0 <= half < 0.1


@pytest.mark.parametrize(
    ("key", "first", "count"),
    [
        ("matmul_bf16fp32_4096x4096x4096", "kernels.gemm.", 20),
        ("linear_bf16fp32_16x8192x8192", "kernels.gemm.", 20),
        ("linear_bf16fp32_4096x4096x4100", "", 0),  # rows that TMA cannot take
        ("linear_f32fp32_512x512x512", "", 0),
        ("attention_bf16fp32_4x16x4x1000x192x128", "kernels.flash_attention.forward", 4),
    ],
)
def test_what_may_compute_a_problem_on_hopper(key: str, first: str, count: int) -> None:
    found = contenders(parse_shape_key(key), HOPPER)
    assert len(found) >= count and bool(found) == bool(count)
    assert all(each.family is not None and each.family.startswith(first) for each in found)


def test_kept_maxima_race_where_a_mask_hides_and_exact_weights_where_none_does() -> None:
    for operator, kept in (("causalattention", True), ("attention", False)):
        found = contenders(parse_shape_key(f"{operator}_bf16fp32_4x16x16x1024x128x128"), HOPPER)
        keeping = [each for each in found if each.levers.get("keeps_maxima")]
        assert keeping and all(bool(each.levers.get("exact_weights")) != kept for each in keeping)


@pytest.mark.parametrize("arch", ONLY_TILES)
def test_elsewhere_the_one_tile_that_builds_races(arch: str) -> None:
    (found,) = contenders(parse_shape_key("matmul_bf16fp32_4096x4096x4096"), replace(HOPPER, key=None, arch=arch))
    assert found.family == "kernels.gemm.pipelined"


# Layers of many sizes


def test_after_some_sizes_of_a_layer_new_ones_take_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Problem] = []

    def compiled(problem: Problem, choice: Choice, where: Place) -> Launch:
        made.append(problem)
        return library_of(problem)

    monkeypatch.setattr(launches, "_compiled", compiled)
    monkeypatch.setattr(launches, "_launches", {})
    monkeypatch.setattr(launches, "_sizes", type(launches._sizes)())
    monkeypatch.setenv(SIZES, "2")

    def call(rows: int, columns: int = 32, **more: Any) -> None:
        launch_of(parse_shape_key(f"linear_f32fp32_{rows}x{columns}x64"), CPU, **more)

    for rows in (16, 24, 40, 56, 16):
        call(rows)
    assert [each.dims[0] for each in made] == [16, 24]
    call(40, 64)  # another layer
    call(72, ahead=True)
    assert [each.dims[:2] for each in made[2:]] == [(40, 64), (72, 32)]
    said = launches.choose(parse_shape_key("linear_f32fp32_88x32x64"), place(CPU), ahead=False)
    assert str(said).startswith("the library: 3 sizes of this layer are compiled; warm_up before the first call")
    monkeypatch.setenv(SIZES, "many")
    with pytest.raises(UsageError, match=f"{SIZES} is 'many'; set it to how many sizes of a layer compile, such as 32"):
        call(88)

"""What means nothing to a verb, or is no number for it, is refused in one line before anything is done."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from harness import doctor
from harness.authoring import scaffold
from harness.catalog import gpus
from harness.cli.app import carry_out
from harness.cli.options import CPU_EXAMPLE
from harness.errors import ExitCode, InfrastructureError
from harness.machine import hints
from harness.machine.files import require_writable
from harness.machine.nvml import devices
from tests.harness.checkout import SHAPE, one_line

NEW = ("new", "--shape", SHAPE, "--model", "me")


def goes_on(*_: object, **__: object) -> NoReturn:
    raise AssertionError("it was not refused")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a command says that is refused."""
    for module, name in ((gpus, "resolve"), (scaffold, "new"), (doctor, "examine")):
        monkeypatch.setattr(module, name, goes_on)

    def refused(*words: str) -> str:
        command = [*words, "--gpu", "cpu"]
        assert carry_out(command) is ExitCode.USAGE
        return one_line(" ".join(capsys.readouterr().err.split()))

    return refused


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--runs", "-1"), '"-1" for --runs. Must be >= 0.'),
        (("--kills", "-1"), '"-1" for --kills. Must be >= 0.'),
        (("--stops", "-2"), '"-2" for --stops. Must be >= 0.'),
        (("--sensitivity", "--runs", "1"), "--runs 1 is not a number of 2 or more"),
        (("--sensitivity", "--slower-by", "nan"), '"nan" for --slower-by. Must be < inf.'),
        (("--sensitivity", "--slower-by", "inf"), '"inf" for --slower-by. Must be < inf.'),
        (("--sensitivity", "--slower-by", "0"), '"0.0" for --slower-by. Must be > 0.'),
    ],
)
def test_a_number_that_a_selftest_cannot_take(said: Callable[..., str], words: tuple[str, ...], says: str) -> None:
    assert says in said("selftest", *words)


@pytest.mark.parametrize("minutes", ["0", "-3", "nan", "inf"])
def test_a_time_that_a_run_cannot_keep(said: Callable[..., str], minutes: str) -> None:
    assert "for --within. Must be" in said("bench", f"--within={minutes}")


def test_a_time_that_is_no_number(said: Callable[..., str]) -> None:
    assert "soon" in said("bench", "--within", "soon")


TUNE = ("tune", "--shape", SHAPE, "--model", "me")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*TUNE, "--warmup", "3"), "give --engine tilelang too"),
        ((*TUNE, "--limit", "60"), "give --engine tilelang too"),
        ((*TUNE, "--engine", "tilelang", "--budget", "2"), "--engine tilelang takes none"),
        ((*TUNE, "--engine", "tilelang", "--no-screen"), "--engine tilelang takes none"),
        ((*TUNE, "--engine", "tilelang", "--early-stop-factor", "nan"), "--early-stop-factor. Must be < inf"),
        (("searches", *TUNE[1:], "--picks", "--picture", "a.svg"), "leave --picks and --json out"),
        (("searches", *TUNE[1:], "--json", "--picture", "a.svg"), "leave --picks and --json out"),
    ],
)
def test_what_another_engine_or_view_would_need(said: Callable[..., str], words: tuple[str, ...], says: str) -> None:
    assert says in said(*words)


ROW = ("bisect", "--row", SHAPE, "--old", "0.1.14", "--new", "0.1.15")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*NEW, "--from", "1", "--bind", "M=64"), "--bind M=64 is no shape key; name the other problem in full, like"),
        (ROW, "bisect compares code for GPUs"),
        (("leaderboard", "--set", "llama3-8b-decode", "--shape", SHAPE), "leave --shape and --share out"),
        (("versus", "--old", "0.1.14", "--build-only"), "versus compares code for GPUs"),
    ],
)
def test_what_a_verb_cannot_take_names_the_option_or_the_verb(
    said: Callable[..., str], words: tuple[str, ...], says: str
) -> None:
    assert says in said(*words)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("selftest", "--iter", "3"), "--iter"),
        (("selftest", "--adversaries", "--iter", "3"), "--iter"),
        (("selftest", "--only", "clock"), "--only"),
        (("searches", "--shape", SHAPE, "--model", "me", "--iter", "3"), "--iter"),
        (("selftest", "--adversaries", "--model", "me"), "--model"),
        (("selftest", "--faults", "--model", "me"), "--model"),
        (("selftest", "--sensitivity", "--model", "me"), "--model"),
        (("doctor", "--iter", "3"), "--iter"),
        (("doctor", "--shape", SHAPE), "--shape"),
        (("doctor", "--share", "1/2"), "--share"),
        (("selftest", "--faults", "--share", "1/2"), "--share"),
        ((*NEW, "--share", "1/2"), "--share"),
        ((*NEW, "--iter", "3"), "--iter"),
    ],
)
def test_an_option_that_means_nothing_to_the_verb(
    said: Callable[..., str], words: tuple[str, ...], option: str
) -> None:
    complaint = said(*words)
    assert "leave " in complaint and option in complaint


@pytest.mark.parametrize("verb", ["bench", "verify", "build", "check", "profile", "leaderboard", "report", "export"])
@pytest.mark.parametrize("share", ["9/8", "0/8", "a/b", "-1/8", "1/", "2", "", "1/2/3", "1.5/8", "٢/8"])
def test_a_share_that_is_none(said: Callable[..., str], verb: str, share: str) -> None:
    assert "is not a share such as 2/8" in said(verb, f"--share={share}")


@pytest.mark.parametrize("verb", ["bench", "verify"])
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--gpus", "none"), "--gpus none is neither all nor a number of 1 or more"),
        (("--gpus", "0"), "--gpus 0 is neither all nor a number of 1 or more"),
        (("--gpus", "2", "--cluster", "ray://head"), "of the cluster ray://head all GPUs are used"),
        (("--gpus", "all", "--force"), "--force is for one GPU"),
        (("--image", "judge"), "--image is for --gpus or --cluster; on one GPU: run-in-docker --image judge VERB"),
    ],
)
def test_gpus_that_are_no_fleet(said: Callable[..., str], verb: str, words: tuple[str, ...], says: str) -> None:
    assert says in said(verb, *words)


def test_a_build_on_many_gpus_of_one_host(said: Callable[..., str]) -> None:
    assert "--cluster adds those of other hosts" in said("build", "--gpus", "all")


@pytest.mark.parametrize(
    "words", [("--shape", SHAPE), ("--model", "me", "--iter", "1"), ("--model", "me", "--share", "1/2")]
)
def test_a_tuning_on_many_gpus_needs_a_model_alone(said: Callable[..., str], words: tuple[str, ...]) -> None:
    assert "tune on many GPUs needs --model" in said("tune", "--gpus", "all", *words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("reproduce", "/no/such.jsonl"), "there is no file /no/such.jsonl"),
        (("reproduce", "1"), "more; give more of it"),
        (("compare", "README.md", "last", "--gpu", "h200"), "README.md holds no record of h200: README.md:1: not a"),
        (("versus", "--old", ".", "--old-image", "x", "--build-only", "--gpu", "h200"), "--old-image, not by both"),
        (
            ("bisect", "--old", "0.1.9", "--new", "0.1.9", "--row", "nope", "--gpu", "h200"),
            "--row nope is no shape key",
        ),
        (
            ("leaderboard", "--gpu", "a100"),
            f"`{hints.program()} new --gpu a100 --shape KEY --model NAME` begins a ladder",
        ),
        (("new", "--gpu", "cpu", "--shape", SHAPE, "--model", "none", "--idea", "3"), "the ladder is empty"),
        (("tune", "--gpu", "cpu"), f"e.g. --shape {CPU_EXAMPLE} --model me"),
        (("doctor", "--gpu", "foo"), "unknown GPU key 'foo'"),
        (("doctor", "--set", "llama3-8b-decode"), "leave --shape, --model, --iter, --share, --set out"),
    ],
)
def test_what_a_user_gave_is_named(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str) -> None:
    assert carry_out(words) is ExitCode.USAGE
    assert says in one_line(" ".join(capsys.readouterr().err.split()))


def test_doctor_misses_the_gpu_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = next(key for key in ("b200", "a100") if not any(gpus.key_of(each.name) == key for each in devices()))
    assert carry_out(("doctor", "--gpu", wanted)) is ExitCode.INFRASTRUCTURE
    assert f"missing  {wanted}" in capsys.readouterr().out


def test_a_folder_in_which_nothing_can_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_writable(tmp_path / "logs" / "deep")
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)  # root may write anywhere
    with pytest.raises(InfrastructureError, match=r"logs/deep cannot be written: mount it writable"):
        require_writable(tmp_path / "logs" / "deep")

"""Every verb answers ``--json`` with the same envelope, and so does every error."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from docs.generator.envelope import data_types, schema
from harness import __version__
from harness.cli.app import carry_out
from harness.cli.reply import Envelope
from tests.harness.checkout import ROOT, SHAPE, one_line
from tests.harness.envelopes import answer, envelope

LADDER = ("--gpu", "cpu", "--shape", SHAPE, "--model", "me")
H200 = ("--gpu", "h200", "--shape", "matmul_bf16fp32_4096x4096x4096")
TUNED = ("--gpu", "h200", "--shape", "matmul_bf16fp32_4096x4096x4096", "--model", "tuner")
Run = Callable[..., bytes]


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    """A verb on a tree: its stdout. The exit code must be that of the envelope."""

    def carried_out(root: Path, *words: str) -> bytes:
        monkeypatch.setenv("TILEBENCH_ROOT", str(root))
        code = carry_out([*words, "--json"])
        out = capsysbinary.readouterr().out
        assert envelope(out)["exit_code"] == code
        return out

    return carried_out


def strictly(out: bytes, verb: str) -> Envelope[Any]:
    """The document as its type reads it."""
    decoded: Envelope[Any] = msgspec.json.decode(
        out,
        type=Envelope[data_types()[verb]],  # type: ignore[misc]
        dec_hook=lambda kind, text: kind(text),
    )
    return decoded


@pytest.mark.parametrize(
    "words",
    [
        ("check", *H200, "--iter", "1"),
        ("leaderboard", *H200),
        ("leaderboard", "--gpu", "h200", "--set", "llama3-8b-decode"),
        ("compare", "last", *H200),
        ("compare", "previous", *H200),
        ("next", *H200, "--model", "tilebench"),
        ("doctor",),
        ("publish", "--check", "--gpu", "h200"),
        ("searches", *TUNED, "--picks"),
        ("searches", *TUNED),
    ],
    ids=lambda words: words[0],
)
def test_verbs_that_read(run: Run, words: tuple[str, ...]) -> None:
    out = run(ROOT, *words)
    document = strictly(out, words[0])
    assert (document.tilebench, document.verb) == (__version__, words[0])
    assert document.data is not None, document.problems


def test_verbs_that_write(run: Run, tmp_path: Path) -> None:
    out = run(tmp_path, "new", *LADDER)
    assert Path(answer(out)["path"]).is_file()
    strictly(out, "new")
    out = run(tmp_path, "next", *LADDER)
    assert answer(out)["parent"] == "iter000_torch_matmul"  # not the draft that is not edited
    strictly(out, "next")
    assert run(tmp_path, "next", *LADDER[:-2]) == out  # the only model need not be named
    out = run(tmp_path, "report", "--gpu", "cpu", "--output", str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").stat().st_size == answer(out)["bytes"]
    strictly(out, "report")
    assert strictly(run(tmp_path, "audit", str(tmp_path)), "audit").data == []


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("bench", "--gpu", "h900"), 2, "unknown GPU key 'h900'"),
        (("bench", "--no-such"), 2, "--no-such"),
        (("bench", "--gpu", "cpu", "--lock-clock", "1000"), 2, "--lock-clock holds the clock of a GPU"),
        (("bnech",), 2, "bnech"),
        (("new", "--gpu", "cpu"), 2, "new needs --shape and --model"),
        (("next", *LADDER, "--iter", "1"), 2, "leave --iter out"),
        (("leaderboard", "--gpu", "cpu"), 2, "no iteration under tuning/cpu/ yet"),
        (("profile", "--gpu", "cpu"), 3, "a CPU has none that ncu reads"),
    ],
)
def test_an_error_is_an_envelope_too(run: Run, tmp_path: Path, words: tuple[str, ...], code: int, says: str) -> None:
    document = envelope(run(tmp_path, *words))
    assert (document["verb"], document["exit_code"], document["data"]) == (words[0], code, None)
    assert says in document["problems"][-1]


def test_what_could_not_be_read_is_a_problem(run: Run, tmp_path: Path) -> None:
    run(tmp_path, "new", *LADDER)
    records = tmp_path / "tuning" / "cpu" / "tilelang" / "logs" / SHAPE / "me" / "results.jsonl"
    records.parent.mkdir(parents=True)
    records.write_text("{")
    document = envelope(run(tmp_path, "leaderboard", "--gpu", "cpu"))
    assert len(document["data"]) == 2
    assert "torn last line" in document["problems"][0]


def test_a_reader_that_leaves_gets_no_traceback(tmp_path: Path) -> None:
    """As in ``| head -c 1``, for an answer and for an error."""
    for words in (("leaderboard", "--gpu", "h200"), ("bench", "--gpu", "h900")):
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-m", "harness", *words, "--json"]
        done = subprocess.run(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
        os.close(writer)
        assert done.returncode == (0 if words[0] == "leaderboard" else 2)
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["--json=True", "--json=yes", "--json=1"])
def test_json_is_asked_for_by_any_yes(option: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert carry_out(["leaderboard", "--gpu", "nowhere", option]) == 2
    assert msgspec.json.decode(capfdbinary.readouterr().out, type=Envelope).exit_code == 2


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_a_disk_that_is_full_is_one_line(option: list[str]) -> None:
    command = [sys.executable, "-m", "harness", "leaderboard", "--gpu", "h200", *option]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert "No space left on device" in one_line(done.stderr)


def test_a_terminal_without_these_characters_gets_others() -> None:
    command = [sys.executable, "-m", "harness", "leaderboard", "--gpu", "h200"]
    variables = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "?" in done.stdout


def test_the_schema_is_one_and_refuses_what_is_no_envelope() -> None:
    validator = jsonschema.Draft202012Validator(schema())
    validator.check_schema(validator.schema)
    assert {"bench", "build", "check", "leaderboard", "new", "profile", "tune", "verify"} <= data_types().keys()
    good = {"tilebench": "1", "schema": 1, "verb": "new", "exit_code": 0, "data": {"path": "a"}, "problems": []}
    validator.validate(good)
    wrong: list[dict[str, Any]] = [{"schema": 2}, {"data": {}}, {"data": []}, {"exit_code": "0"}, {"more": 1}]
    for change in wrong:
        with pytest.raises(jsonschema.ValidationError):
            validator.validate({**good, **change})

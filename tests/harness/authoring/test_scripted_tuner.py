"""A scripted tuner climbs a ladder on a CPU, with no more than AGENTS.md says.

It runs commands, reads their ``--json``, and edits the file that it was given. It does not measure the library, so that
KEEP means *best of its own*, on a machine of any speed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness.checkout import ROOT, Checkout
from tests.harness.envelopes import envelope

SHAPE: Final = "matmul_f32fp32_128x128x128"
STAGES: Final = ("check", "build", "verify", "bench")
# Scalar loops first, which are many times slower than any register tile.
START: Final = {"block_M": 1, "block_N": 1, "vector_width": 1}
# A width that the family refuses comes first, so that the tuner must read the reason and try another source.
MOVES: Final = (
    ("vectors", ({"block_N": 16, "vector_width": 3}, {"block_N": 16, "vector_width": 8})),
    ("register_tile", ({"block_M": 4},)),
)
SPOILED: Final = ("clock", "referee")  # the machine's doing: another program took the core

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@dataclass
class Tuner:
    """Knows the verbs, the envelope and the exit codes, and the levers of one family."""

    checkout: Checkout
    ladder: tuple[str, ...] = ("--gpu", "cpu", "--shape", SHAPE, "--model", "script")
    said: list[tuple[str, int]] = field(default_factory=list)

    def ask(self, verb: str, *options: str) -> dict[str, Any]:
        done = self.checkout.run(verb, *self.ladder, *options, "--json")
        document = envelope(done.stdout)
        assert (document["verb"], document["exit_code"]) == (verb, done.returncode), done.stderr
        self.said.append((verb, done.returncode))
        return document

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("next")["data"]
        return found

    def new(self, tag: str) -> Path:
        parent = self.state()["parent"]
        return Path(self.ask("new", "--tag", tag, *(("--from", parent) if parent else ()))["data"]["path"])

    def judged(self, path: Path) -> dict[str, Any]:
        """The record of the last stage that was reached."""
        number = path.name[4:7]
        for stage in STAGES:
            options = ("--budget", "0.5") if stage == "bench" else ()
            for again in range(3):
                document = self.ask(stage, "--iter", number, *options, *(("--again",) if again else ()))
                (record,) = document["data"]["records"]
                if record["cause"] not in SPOILED:
                    break
            if document["exit_code"]:
                break
        found: dict[str, Any] = record
        return found


def edit(path: Path, levers: dict[str, int]) -> None:
    """Say the idea, and pin other values of CONFIG's levers."""
    idea = f"{', '.join(f'{lever} of {value}' for lever, value in levers.items())}."
    text = re.sub(r'^""".*?"""', f'"""{idea}"""', path.read_text(), count=1, flags=re.DOTALL)
    for lever, value in levers.items():
        text, count = re.subn(rf"\b{lever}=\w+", f"{lever}={value}", text)
        assert count == 1, text
    path.write_text(text)


@pytest.fixture(scope="module")
def tuner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tuner]:
    made = Checkout.create(tmp_path_factory.mktemp("tuner") / "checkout")
    yield Tuner(made)
    assert made.processes() == []
    made.end()


def test_it_climbs_from_scalar_loops_to_a_kept_register_tile(tuner: Tuner) -> None:
    assert tuner.state()["iterations"] == []
    first = tuner.new("scalar_loops")
    edit(first, START)
    assert tuner.judged(first)["status"] == "passed"
    start = tuner.state()["best"]
    assert (start["tag"], start["decision"]) == ("scalar_loops", "KEEP")

    for tag, attempts in MOVES:
        path = tuner.new(tag)
        for levers in attempts:
            edit(path, levers)
            if tuner.judged(path)["status"] == "passed":
                break

    found = tuner.state()
    best, steps = found["best"], {each["tag"]: each for each in found["iterations"]}
    assert (best["status"], best["decision"]) == ("passed", "KEEP")
    assert best["iteration"] == found["parent"] != start["iteration"]
    assert best["ratio_low"] > start["ratio_high"]
    assert steps["vectors"]["parent"] == start["iteration"]
    assert steps["register_tile"]["parent"] == steps["vectors"]["iteration"]
    assert "vector_width=8" in steps["register_tile"]["config"]
    assert steps["register_tile"]["idea"] == "block_M of 4."
    assert steps["torch_matmul"]["status"] == "not measured"
    assert steps["torch_matmul"]["number"] == 0
    assert found["measuring_seconds"] > 0
    assert found["building_seconds"] > 0
    refused = [(verb, code) for verb, code in tuner.said if code]
    assert ("build", 1) in refused
    assert {code for _, code in refused} == {1}
    page = (ROOT / "AGENTS.md").read_text()
    assert all(f"tilebench {verb} $O" in page for verb, _ in tuner.said)

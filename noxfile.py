"""The stages and the checks as nox sessions, such as `nox -s verify bench -- --gpu cpu`.

Arguments after `--` go to the verb, or to pytest. All sessions share one environment, since each would install torch
again: make's ``.venv``, and inside the container that of the image.
"""

import argparse
import os
import shlex

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "check", "tests"]

PYTHON = "python3" if os.environ.get("TILEBENCH_IMAGE") else ".venv/bin/python"
LANES = {
    "tests": ("test", "The tests of `make test`."),
    "tests_fast": ("test-fast", "Those that need neither torch nor a process, while you edit."),
    "tests_all": ("test-all", "All tests, the slow ones too."),
}
COMPILING = {
    "build": "Compile the iterations for their GPU and show the evidence; needs no GPU.",
    "verify": "Compare the iterations with the reference; times nothing.",
    "bench": "Verify and time the iterations against the library; print the leaderboard.",
    "profile": "Say what bounds the leaders and what to try next; needs a GPU and ncu.",
    "tune": "Search a family's space and pin the winner as the next iteration.",
}
READING = {
    "leaderboard": "Print the leaderboard from the records.",
    "report": "Write all records as one HTML file.",
    "selftest": "Test the harness: the library against itself.",
}


@nox.session
def lint(session: nox.Session) -> None:
    """Lint, format and types."""
    session.run("make", "lint")


@nox.session
def check(session: nox.Session) -> None:
    """The contract on the sources, of every GPU key unless an argument names one."""
    if session.posargs:
        carry_out(session, "check", "runtime")
    else:
        session.run("make", "check-all")


def carry_out(session: nox.Session, verb: str, *needed: str) -> None:
    session.run("make", *needed)
    session.run(PYTHON, "-m", "harness", verb, *session.posargs)


def add_lane(name: str, target: str, told: str) -> None:
    def lane(session: nox.Session) -> None:
        session.run("make", target, f"ARGS={shlex.join(session.posargs)}")

    lane.__doc__ = told
    nox.session(name=name)(lane)


def add_verb(verb: str, told: str, *, compiles: bool) -> None:
    def stage(session: nox.Session) -> None:
        parser = argparse.ArgumentParser(add_help=False)
        parser.add_argument("--gpu", default="auto")
        key = parser.parse_known_args(session.posargs)[0].gpu
        carry_out(session, verb, *(("toolchain", f"GPU={key}") if compiles else ("runtime",)))

    stage.__doc__ = told
    nox.session(name=verb)(stage)


for name, (target, told) in LANES.items():
    add_lane(name, target, told)
for verb, told in (COMPILING | READING).items():
    add_verb(verb, told, compiles=verb in COMPILING)

"""The stages and the checks as nox sessions, such as `nox -s verify bench -- --gpu cpu`.

Arguments after `--` go to the verb. All sessions share one environment, since each would install torch again: make's
``.venv``, and inside the container that of the image.
"""

import argparse
import os
import shlex

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "check", "tests"]

PYTHON = "python3" if os.environ.get("TILEBENCH_IMAGE") else ".venv/bin/python"


def harness(session: nox.Session, verb: str) -> None:
    session.run("make", "runtime")
    session.run(PYTHON, "-m", "harness", verb, *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Lint, format and types."""
    session.run("make", "lint")


@nox.session
def tests(session: nox.Session) -> None:
    """The tests of `make test`; arguments after `--` go to pytest."""
    session.run("make", "test", f"ARGS={shlex.join(session.posargs)}")


@nox.session
def tests_fast(session: nox.Session) -> None:
    """Those that need neither torch nor a process, while you edit."""
    session.run("make", "test-fast", f"ARGS={shlex.join(session.posargs)}")


@nox.session
def tests_all(session: nox.Session) -> None:
    """All tests, as CI runs them."""
    session.run("make", "test-all", f"ARGS={shlex.join(session.posargs)}")


@nox.session
def check(session: nox.Session) -> None:
    """The contract on the sources, of every GPU key unless an argument names one."""
    if session.posargs:
        harness(session, "check")
    else:
        session.run("make", "check-all")


@nox.session
def build(session: nox.Session) -> None:
    """Compile the iterations for their GPU and show the evidence; installs missing compilers, and needs no GPU."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--gpu", default="auto")
    session.run("make", "toolchain", f"GPU={parser.parse_known_args(session.posargs)[0].gpu}")
    harness(session, "build")


@nox.session
def verify(session: nox.Session) -> None:
    """Compare the iterations with the reference; times nothing."""
    harness(session, "verify")


@nox.session
def bench(session: nox.Session) -> None:
    """Verify and time the iterations against the library; print the leaderboard."""
    harness(session, "bench")


@nox.session
def profile(session: nox.Session) -> None:
    """Say what bounds the leaders and what to try next; needs a GPU and ncu."""
    harness(session, "profile")


@nox.session
def tune(session: nox.Session) -> None:
    """Search a family's space and pin the winner as the next iteration."""
    harness(session, "tune")


@nox.session
def leaderboard(session: nox.Session) -> None:
    """Print the leaderboard from the records."""
    harness(session, "leaderboard")


@nox.session
def report(session: nox.Session) -> None:
    """Write all records as one HTML file."""
    harness(session, "report")


@nox.session
def selftest(session: nox.Session) -> None:
    """Test the harness: the library against itself."""
    harness(session, "selftest")

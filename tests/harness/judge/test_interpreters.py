"""Children of another interpreter: its own packages and caches, and a parent that is as before."""

import ast
import os
import sysconfig
import venv
from multiprocessing import forkserver, spawn
from pathlib import Path

import psutil
import pytest

from harness.judge import interpreters, processes
from harness.judge.child.preloading import REASON_IN
from harness.judge.interpreters import CACHES, CODE, Interpreter, retire, server_pids, using, write_bytecode
from harness.judge.messages import VERSION, Confined
from harness.judge.processes import Contestant, Ended, Worker
from harness.records.base import Cause, Confinement

CHILD = """
import os, sys
from pathlib import Path
from harness.judge.interpreters import CACHES
told = [sys.prefix, os.environ["PYTHONPATH"], *(os.environ[name] for name in CACHES), *sys.path]
Path({answer!r}).write_text("\\n".join(told))
"""


def test_a_child_of_another_interpreter_has_its_packages_and_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.EnvBuilder(symlinks=True, with_pip=False).create(tmp_path / "venv")
    own = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "venv")}))
    (own / "base.pth").write_text(sysconfig.get_path("purelib"))
    monkeypatch.syspath_prepend(tmp_path / "of the parent alone")
    monkeypatch.setattr(interpreters, "PRELOAD", ["harness.judge.child.parent_death_signal"])
    monkeypatch.setattr(interpreters, "_servers", dict(interpreters._servers))
    monkeypatch.setenv("TRITON_CACHE_DIR", "the parent's")
    monkeypatch.delenv("TILELANG_CACHE_DIR", raising=False)
    places = tmp_path / "caches", tmp_path / "support"
    other = Interpreter("another", tmp_path / "venv" / "bin" / "python", *places)
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", *CACHES)}
    answer = tmp_path / "answer"
    before_pids = set(server_pids())
    known = forkserver.connect_to_new_process, spawn.get_executable(), spawn.get_preparation_data
    process = processes.Process(target=exec, args=(CHILD.format(answer=str(answer)),))
    with processes._hidden_main(), using(other, tmp_path):
        processes._ensure_forkserver()
        process.start()
    process.join(60)
    (server,) = set(server_pids()) - before_pids
    retire(other)
    assert not psutil.pid_exists(server)
    assert set(server_pids()) == before_pids
    assert process.exitcode == 0
    prefix, python_path, *told = answer.read_text().splitlines()
    caches, path = told[: len(CACHES)], told[len(CACHES) :]
    assert prefix == str(tmp_path / "venv")
    assert python_path == f"{CODE}{os.pathsep}{tmp_path / 'support'}"
    assert set(caches) == {str(tmp_path / "caches")}
    assert [each for each in path if each.endswith("site-packages")] == [str(own), sysconfig.get_path("purelib")]
    assert str(tmp_path / "of the parent alone") not in path
    assert {name: os.environ.get(name) for name in before} == before
    assert known == (forkserver.connect_to_new_process, spawn.get_executable(), spawn.get_preparation_data)


def test_another_version_of_the_messages_is_said_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    contestant = object.__new__(Contestant)
    contestant.role = "contestant"
    for version in ("", "0123abcd"):
        told = Confined(1, Confinement.LIMITS, version)
        monkeypatch.setattr(Worker, "hear", lambda *_, told=told: told)
        said = f"speaks version {version} of the messages, and this tilebench {VERSION}"
        with pytest.raises(Ended, match=said) as ended:
            contestant._await_confinement(1.0)
        assert ended.value.cause is Cause.LOAD
    assert contestant.confinement is None


@pytest.mark.parametrize(("own", "cause"), [(True, None), (False, Cause.LOAD)])
def test_imports_that_fail_are_the_environments_fault(own: bool, cause: Cause | None, tmp_path: Path) -> None:
    """Of the parent's own interpreter every process fails so; of another one, what it should have built."""
    other = Interpreter("tilelang==9", Path("python"), tmp_path)
    other.imports._reason = tmp_path / "reason"
    (tmp_path / "reason").write_text("ImportError: no libtvm")
    contestant = object.__new__(Contestant)
    contestant.role, contestant.interpreter = "contestant", None if own else other
    contestant.fate = lambda: "ended"  # type: ignore[method-assign]
    ended = contestant._ended()
    assert ended.cause is (cause or Cause.CRASH)
    assert ("in tilelang==9: ImportError: no libtvm" in ended.reason) != own


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of another interpreter's own, in the place of all that its forkserver would import."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(tmp_path / "venv")
    monkeypatch.setattr(interpreters, "IMPORTS", "late")
    return Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "venv")})) / "late.py"


def another(folder: Path) -> Interpreter:
    return Interpreter("another", folder / "venv" / "bin" / "python", folder / "caches")


def test_what_an_interpreter_imports_has_bytecode(tmp_path: Path, late: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, an import takes other memory. Where it fails, the forkserver gives the reason, and not this."""
    told = tmp_path / "told"
    late.write_text(f"import os, pathlib; pathlib.Path({str(told)!r}).write_text(repr(dict(os.environ)))")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv(REASON_IN, str(tmp_path / "reason"))
    write_bytecode(another(tmp_path))
    assert list((late.parent / "__pycache__").glob("late.*.pyc"))
    variables = ast.literal_eval(told.read_text())
    assert REASON_IN not in variables
    assert {variables[name] for name in CACHES} == {str(tmp_path / "caches")}


def test_an_import_that_hangs_is_not_waited_for(tmp_path: Path, late: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late.write_text(
        f"import os, pathlib, time; pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
        "time.sleep(600)"
    )
    monkeypatch.setattr(interpreters, "IMPORT_DEADLINE_S", 2.0)
    write_bytecode(another(tmp_path))
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))

"""A foreign tree, benched for real on the CPU: every form of a kernel, and every way to have none."""

import os
import re
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.catalog import gpus
from harness.catalog.tree import Selection
from harness.errors import UsageError
from harness.evidence import toolchain
from harness.extras.foreign.bench import placed
from harness.extras.foreign.record import Basis, ForeignRecord, path_of
from harness.extras.foreign.scripts import scripts
from harness.judge.child.confinement import landlock_version
from harness.records.base import Cause, Stage, Status
from harness.records.store import read
from tests.harness import examples
from tests.harness.checkout import NEITHER_CHILD_NOR_TORCH, SAMPLES, SHAPE, Checkout, one_line, until
from tests.harness.envelopes import answer

pytestmark = pytest.mark.slow  # it runs every form of a script

MODEL = "somebody"
FORMS = ("prim_func", "compiled", "lazy", "eager")
NO_KERNEL = ("hidden", "several", "says_nothing", "admits")
ALL = (*FORMS, "lies", "wrong", "other_size", *NO_KERNEL, "hangs")
SHORT = ("--gpu", "cpu", "--budget", "0.2", "--build-deadline", "25", "--script-deadline", "60")
IN_ITS_MODULE = """
import sys
import tilelang
import tilelang.autotuner
import tilelang.language as T
import torch

N = 4096

@tilelang.jit(out_idx=[-1])
def add(N, threads=128):
    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32"), Z: T.Tensor((N,), "float32")):
        with T.Kernel(N // 512, threads=threads) as block:
            for i in T.Parallel(512):
                Z[block * 512 + i] = X[block * 512 + i] + Y[block * 512 + i]
    return main

x = torch.randn(N, device="cuda")
y = torch.randn(N).cuda()
z = x + y
"""
# What such a script does besides, and the threads of the kernel that is found.
BESIDES = {
    "nothing": ("", 128),
    "launches": ("kernel = add(N, threads=64)\nassert torch.allclose(kernel(x, y), z)\n", 64),
    "calls_in_main": ("if __name__ == '__main__':\n    add(N, threads=256)(x, y)\n    sys.exit('it ran')\n", 256),
    "tunes": ("kernel = tilelang.autotune(configs=[{'threads': 64}])(add)(N)\n", None),
}
CLAIMS = "iteration\ttime_ms\niter001_prim_func\t0.04\niter001_prim_func\t0.06\niter005_lies\t0.0001\n"


@dataclass
class Foreign:
    """A foreign tree beside a checkout that benches it."""

    checkout: Checkout
    root: Path
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)

    def put(self, number: int, sample: str, shape: str = SHAPE) -> Path:
        path = self.root / "srcs" / shape / MODEL / f"iter{number:03d}_{sample}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SAMPLES / "foreign" / f"{sample}.py", path)
        return path

    def records(self, shape: str = SHAPE) -> list[ForeignRecord]:
        records, problems = read(path_of(self.checkout.tree, "cpu", shape, MODEL), ForeignRecord)
        assert problems == []
        return records

    def newest(self, sample: str) -> list[ForeignRecord]:
        return [each for each in self.records() if each.script.endswith(f"_{sample}")][-1:]

    def read(self, document: str) -> None:
        """Rows by sample, each with the part of the board that it stands in."""
        (board,) = answer(document)
        for place in ("judged", "self_reported"):
            for row in board[place]:
                self.rows[row["script"].partition("_")[2]] = row | {"place": place}

    def files(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(self.root.rglob("*")) if path.is_file()}


def foreign_tree(folder: Path) -> Foreign:
    return Foreign(Checkout.create(folder / "checkout"), folder / "theirs")


def beside(other: Foreign, folder: Path) -> Foreign:
    """Another tree, with a checkout that the same process benches."""
    made = foreign_tree(folder)
    made.checkout.shell = other.checkout.shell
    return made


@pytest.fixture(scope="module")
def benched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    """All samples, benched once; ``rows`` holds the printed rows by sample."""
    made = foreign_tree(tmp_path_factory.mktemp("foreign"))
    made.checkout.kept_warm()
    for number, sample in enumerate(ALL, start=1):
        path = made.put(number, sample)
    path.with_name("sizes.py").write_text("SIZE = 32\n")
    logs = made.root / "logs" / SHAPE / MODEL
    logs.mkdir(parents=True)
    (logs / "results.tsv").write_text(CLAIMS)
    before = made.files()
    done = made.checkout.run("foreign", str(made.root), *SHORT, "--json")
    assert done.returncode == 1, done.stderr
    assert made.files() == before, "something was written into the foreign tree"
    made.read(done.stdout)
    yield made
    made.checkout.end()


def test_every_script_has_one_row(benched: Foreign) -> None:
    assert set(benched.rows) == set(ALL)
    assert {each.script.partition("_")[2] for each in benched.records()} == set(ALL)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_kernel_is_found_and_judged(benched: Foreign, form: str) -> None:
    row = benched.rows[form]
    assert (row["place"], row["basis"], row["status"]) == ("judged", Basis.JUDGED, Status.PASSED), row
    assert row["rank"] >= 1 and row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
    (record,) = benched.newest(form)
    assert record.stage is Stage.BENCH and record.measurement is not None and len(record.verification) > 1


def test_what_the_tree_claims_stands_beside_what_was_measured(benched: Foreign) -> None:
    honest, liar, silent = (benched.rows[name] for name in ("prim_func", "lies", "eager"))
    assert (honest["claimed_ms"], honest["claims"]) == (0.05, 2)
    assert honest["quotient"] == pytest.approx(honest["time_ms"] / 0.05)
    assert (liar["status"], liar["claimed_ms"]) == (Status.PASSED, 0.0001)
    assert liar["quotient"] > 100
    assert (silent["claimed_ms"], silent["quotient"]) == (None, None)


def test_its_own_verdict_counts_for_nothing(benched: Foreign) -> None:
    row = benched.rows["wrong"]
    assert (row["place"], row["status"], row["rank"]) == ("judged", Status.REJECTED, None)
    assert "max_abs_err" in row["reason"] and row["time_ms"] is None


def test_a_kernel_of_another_problem_is_rejected(benched: Foreign) -> None:
    row = benched.rows["other_size"]
    assert row["status"] == Status.REJECTED
    assert row["reason"] == f"parameter 1 of the kernel, a, is float32[16,16], {SHAPE} has float32[32,32]"


def test_where_no_kernel_is_found_the_script_speaks_for_itself(benched: Foreign) -> None:
    row = benched.rows["hidden"]
    assert (row["place"], row["basis"], row["status"]) == ("self_reported", Basis.SELF_REPORTED, Status.PASSED)
    assert (row["time_ms"], row["tflops"], row["verdict"]) == (0.0125, 0.5, True)
    assert row["reason"] == "make: what it is given as 'threads' is decided when it runs"


def test_self_reported_rows_rank_with_nothing(benched: Foreign) -> None:
    for name in NO_KERNEL:
        row = benched.rows[name]
        assert row["place"] == "self_reported"
        assert [row[figure] for figure in ("rank", "ratio", "ratio_low", "ratio_high", "quotient")] == [None] * 5


def test_two_kernels_are_one_too_many(benched: Foreign) -> None:
    row = benched.rows["several"]
    assert row["reason"] == "it has several kernels, and nothing says which: first, second"
    assert row["time_ms"] == 0.25


@pytest.mark.skipif(landlock_version() == 0, reason="this Linux has no Landlock")
def test_a_script_that_runs_by_itself_is_confined(benched: Foreign) -> None:
    assert re.search("PermissionError|Read-only file system", benched.rows["several"]["ended"])
    assert not list(benched.root.rglob("stolen.txt"))


def test_without_figures_it_has_failed(benched: Foreign) -> None:
    silent, honest = benched.rows["says_nothing"], benched.rows["admits"]
    assert (silent["status"], silent["time_ms"]) == (Status.FAILED, None)
    assert silent["ended"].startswith("it printed no figures")
    assert (honest["status"], honest["verdict"]) == (Status.FAILED, False)


def test_one_that_hangs_when_it_is_loaded(benched: Foreign) -> None:
    row = benched.rows["hangs"]
    assert (row["place"], row["status"]) == ("judged", Status.FAILED)
    assert "did not answer within 25 s" in row["reason"]
    assert [each.cause for each in benched.newest("hangs")] == [Cause.TIMEOUT]


def test_nothing_is_left_behind(benched: Foreign) -> None:
    assert until(lambda: benched.checkout.processes() == []), benched.checkout.processes()
    assert benched.checkout.leftovers() == []


def test_a_second_call_measures_only_what_is_new_or_changed(benched: Foreign) -> None:
    count = len(benched.records())
    done = benched.checkout.run("foreign", str(benched.root), *SHORT)
    assert f"{len(ALL)} of {len(ALL)} were recorded before" in done.stderr
    assert len(benched.records()) == count
    told = " ".join(done.stdout.split())  # lines are as long as the terminal is wide
    judged, _, apart = told.partition("self-reported: figures by the scripts' own word")
    assert "iter001" in judged and "iter008" not in judged  # names may be shortened
    assert "iter008" in apart and "iter001" not in apart
    sizes = next(benched.root.rglob("sizes.py"))
    sizes.write_text("SIZE = 32  # what a script imports is a part of it\n")
    done = benched.checkout.run("foreign", str(benched.root), *SHORT)
    assert [each.script for each in benched.records()[count:]] == ["iter005_lies"]
    benched.checkout.run("foreign", str(benched.root), *SHORT, "--iter", "1", "--again")
    assert benched.records()[-1].script == "iter001_prim_func"


def test_ctrl_c_keeps_what_is_known(benched: Foreign, tmp_path: Path) -> None:
    made = beside(benched, tmp_path)
    for number in (1, 2):
        made.put(number, "prim_func")
    with made.checkout.started("foreign", str(made.root), "--gpu", "cpu", "--budget", "4") as process:
        assert until(made.records), made.checkout.said
        process.send_signal(signal.SIGINT)
        assert process.wait() == 3
    assert "stopped; what is recorded stays" in one_line(made.checkout.said)
    assert [each.script for each in made.records()] == ["iter001_prim_func"]
    assert until(lambda: made.checkout.processes() == []), made.checkout.processes()
    done = made.checkout.run("foreign", str(made.root), *SHORT)
    assert "1 of 2 were recorded before" in done.stderr
    assert [each.script for each in made.records()] == ["iter001_prim_func", "iter002_prim_func"]


def test_a_folder_that_names_no_problem_of_ours(benched: Foreign, tmp_path: Path) -> None:
    made = beside(benched, tmp_path)
    made.put(1, "hidden", shape="gemm_f16_32x32x32")
    done = made.checkout.run("foreign", str(made.root), *SHORT)
    assert done.returncode == 0, done.stderr
    (record,) = made.records("gemm_f16_32x32x32")
    assert record.basis is Basis.SELF_REPORTED and "unknown operator 'gemm'" in (record.reason or "")


def test_a_script_whose_name_is_not_utf_8_is_a_row_like_any(benched: Foreign, tmp_path: Path) -> None:
    """TileLang cannot compile from such a path, and the row says so."""
    made = beside(benched, tmp_path)
    path = made.put(1, "prim_func")
    path.rename(path.with_name(os.fsdecode(b"iter001_\xff.py")))
    done = made.checkout.run("foreign", str(made.root), *SHORT)
    assert "Traceback" not in done.stderr
    (record,) = made.records()
    assert (record.script, record.status) == (r"iter001_\xff", Status.FAILED), done.stderr
    assert "can't encode" in (record.reason or record.ended or "")


def test_scripts_of_any_layout_are_found_and_judged(benched: Foreign, tmp_path: Path) -> None:
    """A loose file, a test of pytest, and a problem of KernelBench beside its candidate; and a file by itself."""
    made = beside(benched, tmp_path)
    places = {"kernelbench": "level1/1_Square.py", "by_pytest": "tests/test_by_pytest.py", "prim_func": "gemm.py"}
    for sample, place in places.items():
        (made.root / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SAMPLES / "foreign" / f"{sample}.py", made.root / place)
    (made.root / "tests" / "helper.py").write_text("import torch\n")
    done = made.checkout.run("foreign", str(made.root), *SHORT, "--json")
    assert done.returncode == 0, done.stderr
    (board,) = answer(done.stdout)
    assert (board["problem"], board["self_reported"]) == (SHAPE, [])
    found = {(row["model"], row["script"], row["status"]) for row in board["judged"]}
    names = {("level1", "1_Square"), ("tests", "test_by_pytest"), ("theirs", "gemm")}
    assert found == {(*each, Status.PASSED) for each in names}
    done = made.checkout.run("foreign", str(made.root / "level1" / "1_Square.py"), *SHORT, "--again")
    assert (done.returncode, done.stdout.count("1_Square")) == (0, 1), done.stderr


def test_a_candidate_takes_the_problem_of_kernelbench_that_its_name_tells(tmp_path: Path) -> None:
    text = (SAMPLES / "foreign" / "kernelbench.py").read_text()
    problem, _, candidate = text.partition("@T.prim_func")
    (tmp_path / "7_Square.py").write_text("\n".join(each for each in problem.splitlines() if "tilelang" not in each))
    answer_of = tmp_path / "runs" / "level_1_problem_7_sample_0_kernel.py"
    answer_of.parent.mkdir()
    answer_of.write_text(f"import tilelang\nimport tilelang.cpu.language as T\nN = 32\n@T.prim_func{candidate}")
    (found,), _ = scripts(tmp_path, Selection())
    assert (found.path, found.shape_key) == (answer_of, SHAPE)
    answer_of.unlink()
    with pytest.raises(UsageError, match="1 problems of KernelBench are ours"):
        scripts(tmp_path, Selection())


def test_a_shape_names_the_problem_of_what_tells_none(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("import tilelang\n")
    with pytest.raises(UsageError, match="--shape names the problem"):
        scripts(script, Selection())
    for text in ("import tilelang\n", "import tilelang\n(\n"):  # what does not parse is told when it is loaded
        script.write_text(text)
        (found,), left = scripts(script, Selection(shape=SHAPE))
        assert (found.shape_key, found.name, found.number, left) == (SHAPE, "mine", 0, [])


def test_what_tells_no_problem_is_left_out_by_name(tmp_path: Path) -> None:
    told = "import tilelang, torch\nc = torch.randn(8, 16) @ torch.randn(16, 8)\n"
    for name, text in (("told", told), ("broken", "import tilelang\n(\n"), ("silent", "import tilelang\n"), ("no", "")):
        (tmp_path / f"{name}.py").write_text(text)
    found, left = scripts(tmp_path, Selection())
    assert ([each.name for each in found], [each.stem for each in left]) == (["told"], ["broken", "silent"])
    found, left = scripts(tmp_path, Selection(shapes=frozenset({"matmul_f32fp32_8x8x16"})))  # a worker's
    assert [each.name for each in found] == ["told"]


def test_of_one_script_a_named_shape_counts_before_the_guess(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("import tilelang, torch\nc = torch.randn(8, 16) @ torch.randn(16, 8)\n")
    ((guess,), _), ((named,), _) = scripts(script, Selection()), scripts(script, Selection(shape=SHAPE))
    assert (guess.shape_key, named.shape_key) == ("matmul_f32fp32_8x8x16", SHAPE)
    with pytest.raises(UsageError, match="holds no scripts that were asked for"):
        scripts(tmp_path, Selection(shape=SHAPE))


def test_scripts_for_a_gpu_are_refused_at_once_where_there_is_none(benched: Foreign, tmp_path: Path) -> None:
    made = beside(benched, tmp_path)
    made.put(1, "stock_gpu", shape="matmul_bf16fp32_2048x2048x2048")
    done = made.checkout.run("foreign", str(made.root), "--gpu", "cpu", settings=NEITHER_CHILD_NOR_TORCH)
    assert done.returncode == 3
    assert "1 of 1 scripts need a GPU (srcs/" in one_line(done.stderr) and "iter001_stock_gpu.py:16)" in done.stderr
    assert "--gpu h200 compiles" in done.stderr
    assert not (made.checkout.tree.root / "tuning" / "cpu" / "foreign").exists()
    made.put(2, "prim_func")
    done = made.checkout.run("foreign", str(made.root), *SHORT)
    assert done.returncode == 0, done.stderr
    assert "1 of 2 scripts need a GPU" in done.stderr
    assert [each.script for each in made.records()] == ["iter002_prim_func"]


@pytest.mark.skipif(toolchain.find().nvcc is None, reason="needs nvcc; make build installs it")
@pytest.mark.skipif(gpus.detect() != "cpu", reason="this machine has a GPU, which judges")
def test_without_a_gpu_the_kernels_are_compiled_for_one(benched: Foreign, tmp_path: Path) -> None:
    made = beside(benched, tmp_path)
    made.put(1, "stock_gpu", shape="matmul_bf16fp32_2048x2048x2048")
    done = made.checkout.run("foreign", str(made.root), "--gpu", "h200", "--json")
    assert done.returncode == 0, done.stderr
    assert "the kernels are compiled for h200, and not run" in done.stderr
    (board,) = answer(done.stdout)
    (row,) = board["builds"]
    assert (row["model"], row["iteration"], row["status"]) == (MODEL, "iter001_stock_gpu", Status.PASSED)
    assert row["registers"] > 32 and row["shared_bytes"] > 0
    assert (board["judged"], board["self_reported"]) == ([], [])
    assert not (made.checkout.tree.root / "tuning" / "h200" / "foreign").exists()


@pytest.mark.skipif(toolchain.find().nvcc is None, reason="needs nvcc; make build installs it")
@pytest.mark.skipif(gpus.detect() != "cpu", reason="this machine has a GPU, which judges")
def test_without_a_gpu_a_script_may_use_one_in_its_module(benched: Foreign, tmp_path: Path) -> None:
    """A stand-in takes the GPU's place. It does not tune, so what a tuner would choose is not found."""
    made = beside(benched, tmp_path)
    made.root.mkdir()
    for name, (text, _) in BESIDES.items():
        (made.root / f"{name}.py").write_text(IN_ITS_MODULE + text)
    done = made.checkout.run("foreign", str(made.root), "--gpu", "h200", "--json")
    (board,) = answer(done.stdout)
    rows = {row["iteration"]: row for row in board["builds"]}
    assert {name: rows[name]["threads"] for name in rows} == {name: threads for name, (_, threads) in BESIDES.items()}
    reasons = {name: row["reason"] for name, row in rows.items() if row["status"] != Status.PASSED}
    assert list(reasons) == ["tunes"]
    assert "it runs a tuner of its own, which needs a GPU, at tunes.py:22: kernel = " in reasons["tunes"]


def test_what_cannot_be_benched_is_one_line(tmp_path: Path) -> None:
    checkout = Checkout.create(tmp_path / "checkout")
    (tmp_path / "empty").mkdir()
    for tree, complaint in (("nowhere", "is neither a file nor a folder"), ("empty", "holds no scripts")):
        done = checkout.run("foreign", str(tmp_path / tree), "--gpu", "cpu")
        assert done.returncode == 2
        assert complaint in one_line(done.stderr)


def test_a_reason_names_the_scripts_own_line(tmp_path: Path) -> None:
    """In place of its loader's: by the traceback, else by what a compiler names; a wrong result has no line."""
    path = tmp_path / "mine.py"
    path.write_text("import tilelang\n\n\ndef kernel(A):\n    return missing(A)\n")
    (script,), _ = scripts(path, Selection(shape=SHAPE))

    def told(cause: Cause, reason: str, traceback: str | None = None) -> str:
        loaders = f"{reason}, at iter001_idea.py:9: program = program_of(**CONFIG) (attempt0001; 4 of 5 attempts left)"
        record = examples.record(cause=cause, reason=loaders, iteration="iter001_idea", attempt="attempt0001")
        return placed(msgspec.structs.replace(record, traceback=traceback), script, tmp_path) or ""

    frames = f'  File "{path}", line 5, in kernel\n  File "/usr/lib/x.py", line 9, in y\n'
    assert told(Cause.LOAD, "NameError: no", frames) == "NameError: no, at mine.py:5: return missing(A)"
    assert told(Cause.COMPILE, "undefined symbol: missing").endswith(", at mine.py:5: return missing(A)")
    assert told(Cause.WRONG_RESULT, "max_abs_err=1") == "max_abs_err=1"

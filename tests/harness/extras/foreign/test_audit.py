"""The audit of a typical tree names each fault by file and line, and runs nothing."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli.reply import emit
from harness.errors import ExitCode
from harness.extras.foreign import results
from harness.extras.foreign.audit import audit as audit_all
from harness.extras.foreign.finding import AuditFinding, Kind, summary, text
from harness.judge.facts.problem import parse_shape_key
from tests.harness.checkout import ROOT, SAMPLES, Checkout, one_line
from tests.harness.envelopes import answer

SHAPE, MODEL = "matmul_bf16fp32_1024x1024x1024", "somebody"
HONEST = '''"""Wide tiles."""

import tilelang
import tilelang.language as T


@T.prim_func
def gemm(A: T.Tensor((1024, 1024), "bfloat16"), B: T.Tensor((1024, 1024), "bfloat16")):
    with T.Kernel(8, 8, threads=128) as (bx, by):
        T.evaluate({block})


kernel = tilelang.compile(gemm)
'''
OWN_JUDGE = '''"""It judges itself."""

import time

import torch
from tilelang.autotuner import autotune

raise SystemExit("an audit runs nothing")

TOLERANCE = 1e-3


@autotune(configs=[])
def kernel(a, b):
    return torch.matmul(a, b)


def verify():
    a = torch.randn(1024, 1024, dtype=torch.bfloat16)
    expected = torch.matmul(a, a)
    torch.testing.assert_close(kernel(a, a), expected, atol=0.5, rtol=1e-3)
    max_abs_err = (kernel(a, a) - expected).abs().max()
    assert max_abs_err < 2.0


def bench():
    started = time.perf_counter()
    kernel(None, None)
    print("time_ms:", time.perf_counter() - started)
'''
HEADER = '"ID","Kernel Name","gpu__time_duration.sum"\n"","","ns"\n'
FLAWS = sorted((SAMPLES / "audit" / "flaws").glob("*.py"))
CLEAN = sorted((SAMPLES / "audit" / "clean").glob("*.py"))


def audit(*roots: Path) -> list[AuditFinding]:
    return audit_all(roots)


class Tree:
    """A foreign tree, which each test fills."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, part: str, name: str, text: str, shape: str = SHAPE) -> Path:
        path = self.root / "h100" / "tilelang" / part / shape / MODEL / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def found(self, kind: Kind) -> list[AuditFinding]:
        return [finding for finding in audit(self.root) if finding.kind is kind]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    made.put("srcs", "iter001_wide.py", HONEST.format(block=128))
    return made


def test_an_honest_script_has_no_findings(tree: Tree) -> None:
    tree.put("perf", "timing_iter001.txt", "VERIFY: PASS\nTFLOPS: 300 time_ms: 0.0071\n")
    tree.put("perf", "ncu_iter001.csv", HEADER + '"0","gemm_kernel","7100"\n')
    assert audit(tree.root) == []


def test_a_script_that_judges_itself(tree: Tree) -> None:
    path = tree.put("srcs", "iter002_own.py", OWN_JUDGE)
    found = {(finding.kind, finding.line, finding.what) for finding in audit(tree.root) if finding.path == path}
    assert found == {
        (Kind.AUTOTUNE, 13, "autotune"),
        (Kind.LIBRARY, 15, "torch.matmul"),
        (Kind.INPUTS, 19, "torch.randn"),
        (Kind.TOLERANCE, 21, "atol=0.5, the contract's is 0.01"),
        (Kind.TOLERANCE, 23, "max_abs_err=2, the contract's is 0.01"),
        (Kind.TIMER, 27, "time.perf_counter"),
    }


def test_a_kernel_of_another_dtype_than_its_folder(tree: Tree) -> None:
    tree.put("srcs", "iter001_fp8.py", HONEST.format(block=1), shape="linear_e4m3fp32bf16_1024x1024x1024")
    (finding,) = tree.found(Kind.DTYPE)
    assert "bfloat16, where linear_e4m3fp32bf16_1024x1024x1024 has inputs of float8_e4m3fn" in finding.what


def test_a_kernel_that_asks_its_problem_for_the_dtype_may_name_that_of_its_sums(tree: Tree) -> None:
    asks = HONEST.format(block=1).replace('"bfloat16"', "problem.input") + '\nSUMS = "float32"\n'
    assert "problem.input" in asks
    tree.put("srcs", "iter001_asks.py", asks, shape="linear_fp16fp32_1024x1024x1024")
    assert tree.found(Kind.DTYPE) == []


def test_one_program_twice_and_its_figures(tree: Tree) -> None:
    again = HONEST.format(block=128).replace("Wide tiles.", "Another idea.") + "\n# not the same text\n"
    tree.put("srcs", "iter002_again.py", again)
    tree.put("perf", "timing_iter001.txt", "time_ms: 1.0\n")
    tree.put("perf", "timing_iter002.txt", "time_ms: 1.77\n")
    (twice,) = tree.found(Kind.DUPLICATE)
    assert (twice.path.name, twice.what) == ("iter002_again.py", "the same program as iter001_wide.py")
    (apart,) = tree.found(Kind.DISAGREES)
    assert apart.what == "1 ms at timing_iter001.txt:1 and 1.77 at timing_iter002.txt:1, 1.77x apart"


def test_ratios_are_compared_where_they_are_told(tree: Tree) -> None:
    tree.put("logs", "results.tsv", "iteration\ttime_ms\tratio\niter001_wide\t1.0\t0.91\niter001_wide\t1.5\t0.92\n")
    assert tree.found(Kind.DISAGREES) == []


@pytest.mark.parametrize(("time_ms", "found"), [("1.05", 0), ("17.0", 1)])
def test_a_library_called_otherwise_is_no_other_figure_of_the_program(tree: Tree, time_ms: str, found: int) -> None:
    rows = f"iter001_wide\t1.0\t17.67\niter001_wide\t{time_ms}\t1.09\n"
    tree.put("logs", "results.tsv", f"iteration\ttime_ms\tratio\n{rows}")
    assert len(tree.found(Kind.DISAGREES)) == found


@pytest.mark.parametrize(("judge", "families", "found"), [("b", "a", 0), ("a", "b", 0), ("a", "a", 1)])
def test_records_by_another_judge_or_of_other_families_are_no_repeats(
    tree: Tree, judge: str, families: str, found: int
) -> None:
    rows = [
        {
            "iteration": "iter001_wide",
            "families_sha256": of,
            "environment": {"judge_sha256": by},
            "measurement": {"time_ms": time_ms},
        }
        for by, of, time_ms in [("a", "a", 1.0), (judge, families, 1.5)]
    ]
    tree.put("logs", "results.jsonl", "\n".join(map(json.dumps, rows)))
    tree.put("logs", "results.tsv", "iteration\ttime_ms\niter001_wide\t1.0\niter001_wide\t1.5\n")
    assert len(tree.found(Kind.DISAGREES)) == found


def test_a_figure_without_a_script(tree: Tree) -> None:
    tree.put("logs", "results.tsv", "iteration\ttime_ms\niter001_wide\t1.0\niter007_gone\t0.5\n")
    (finding,) = tree.found(Kind.NO_SOURCE)
    assert (finding.path.name, finding.line) == ("results.tsv", 3)
    assert finding.what == "iter007 has a figure and no script"


def test_figures_whose_folder_of_scripts_is_gone(tree: Tree) -> None:
    tree.put("perf", "timing_iter003.txt", "time_ms: 1.0\n", shape="matmul_fp16fp32_64x64x64")
    assert [finding.what for finding in tree.found(Kind.NO_SOURCE)] == ["iter003 has a figure and no script"]


@pytest.mark.parametrize("name", ["iter_5.py", "iter5_a.py", "iter005_a.py", "iter0005.py"])
def test_one_number_however_it_is_written(tree: Tree, name: str) -> None:
    tree.put("srcs", name, HONEST.format(block=1))
    tree.put("logs", "results.tsv", "iteration\ttime_ms\niter_5\t0.5\niter005_a\t0.9\n5\t0.5\n")
    tree.put("perf", "timing_iter5.txt", "time_ms: 0.5\n")
    tree.put("perf", "ncu_iter005.csv", HEADER + '"0","gemm_kernel","7100"\n')
    assert [finding.kind for finding in audit(tree.root)] == [Kind.DISAGREES]


@pytest.mark.parametrize(
    "name", ["void at::native::distribution_elementwise_grid_stride_kernel<float, 4>(int)", "nvjet_tst_128x256"]
)
def test_a_profile_of_another_kernel(tree: Tree, name: str) -> None:
    tree.put("perf", "ncu_iter001.csv", HEADER + f'"0","{name}","7100"\n')
    (finding,) = tree.found(Kind.WRONG_KERNEL)
    assert name[:40] in finding.what


def test_what_cannot_be_read_is_one_finding(tree: Tree) -> None:
    tree.put("srcs", "iter002_torn.py", "def kernel(:\n")
    tree.put("perf", "ncu_iter001.csv", "not a report\n")
    found = tree.found(Kind.UNREADABLE)
    assert {(finding.path.name, finding.line) for finding in found} == {("iter002_torn.py", 1), ("ncu_iter001.csv", 0)}
    assert not any("<unknown>" in finding.what for finding in found)
    assert any(f", says Python 3.{sys.version_info.minor}" in finding.what for finding in found)


def test_a_bad_row_is_one_finding_and_the_rest_is_read(tree: Tree) -> None:
    rows = ("iteration\ttime_ms", f"iter001\t{'9' * 200_000}", "iter007_gone\t0.5")
    path = tree.put("logs", "results.tsv", "\n".join(rows))
    (unread,) = tree.found(Kind.UNREADABLE)
    assert str(unread).startswith(f"{path}:2: unreadable: it is no row of a table: field larger than")
    assert [(each.line, each.what) for each in tree.found(Kind.NO_SOURCE)] == [
        (3, "iter007 has a figure and no script")
    ]


def test_a_folder_named_like_a_result_is_passed_over(tree: Tree) -> None:
    tree.put("perf", "timing_iter001.txt", "time_ms: 1.0\n").with_name("timing_iter002.txt").mkdir()
    tree.put("logs", "results.tsv", "").with_name("results.jsonl").mkdir()
    assert audit(tree.root) == []


def test_a_result_that_cannot_be_read_is_one_finding(tree: Tree) -> None:
    path = tree.put("perf", "timing_iter001.txt", "time_ms: 1.0\n").with_name("timing_iter002.txt")
    path.symlink_to("/proc/self/mem")  # root may read all else
    assert [str(each) for each in audit(tree.root)] == [
        f"{path}: unreadable: Input/output error; the disk fails: see dmesg"
    ]


@pytest.fixture
def pythons_recursion_limit() -> Iterator[None]:
    """Some libraries raise it in a process that imports them."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize("chain", [".x" * 400 + ".randn", ".x" * 1500], ids=["to-be-told", "to-be-compared"])
def test_a_script_that_is_nested_too_deeply_is_one_finding(
    tree: Tree, chain: str, pythons_recursion_limit: None
) -> None:
    path = tree.put("srcs", "iter002_deep.py", f"bound = torch{chain}\n")
    assert [str(each) for each in audit(tree.root)] == [f"{path}: unreadable: its source is nested too deeply"]


def test_a_bound_that_is_no_float_is_loose(tree: Tree) -> None:
    tree.put("srcs", "iter002_huge.py", f"check(atol={'9' * 400})\n")
    assert [each.what for each in tree.found(Kind.TOLERANCE)] == ["atol=inf, the contract's is 0.01"]


def test_lines_of_any_json_are_figures_or_said(tree: Tree) -> None:
    lines = [
        '{"iteration": "iter001", "time_ms": 1, "measurement": 1.5}',
        '{"iteration": "iter001", "measurement": {"time_ms": 1.5}}',
        '{"iteration": ["iter001"], "time_ms": {"iter001": 1}}',
        "[" * 100_000,
        "",
        "[1, 2]",
        '{"iteration": "iter0',
    ]
    path = tree.put("logs", "results.jsonl", "\n".join(lines))
    assert [str(each) for each in tree.found(Kind.UNREADABLE)] == [
        f"{path}:4: unreadable: its JSON is nested too deeply",
        f"{path}:7: unreadable: it is no JSON",
    ]
    figures, unread = results.read(path.parent)
    assert [(each.line, each.time_ms) for each in figures] == [(1, 1), (2, 1.5)]
    assert [each.line for each in unread] == [4, 7]


def test_our_own_tree_has_what_two_chips_disagree_about() -> None:
    """See docs/results/between-chips.md."""
    (finding,) = audit(ROOT / "tuning" / "h200")
    assert (finding.kind, finding.path.name) == (Kind.DISAGREES, "iter013_any_rows.py")


def test_every_kind_says_why_it_matters(tree: Tree) -> None:
    assert all(kind.why for kind in Kind)
    tree.put("srcs", "iter002_own.py", OWN_JUDGE)
    counted = {name: (count, files) for name, count, files, _ in summary(audit(tree.root))}
    assert counted["tolerance"] == (2, 1)


@pytest.mark.parametrize("script", FLAWS, ids=lambda path: path.stem)
def test_each_sin_is_named(script: Path) -> None:
    """The name of the sample is the kind of its finding."""
    kinds = {finding.kind.value.replace("-", "_").replace(" ", "_") for finding in audit(script)}
    assert script.stem in kinds
    assert kinds <= {script.stem, "no_warm_up"}  # a timed compilation is the first call too


def test_the_sins_are_of_different_kinds() -> None:
    assert len(FLAWS) >= 12


@pytest.mark.parametrize("script", CLEAN, ids=lambda path: path.stem)
def test_a_clean_script_has_no_findings(script: Path) -> None:
    assert [str(finding) for finding in audit(script)] == []


def test_there_are_ten_clean_ones() -> None:
    assert len(CLEAN) >= 10


LOOSE = """
import time
import torch
from mine import kernel

N = 1 << 10
a, b = (torch.randn(size, device="cuda", dtype=torch.float16) for size in ((N, 2 * N), (2 * N, N)))
torch.testing.assert_close(kernel(a, b), {reference}, rtol=1e-3, atol={atol})
{timed}
"""
TIMED = """
torch.cuda.synchronize()
t0 = time.perf_counter()
for _ in range(10):
    kernel({operands})
torch.cuda.synchronize()
print(time.perf_counter() - t0)
"""


@pytest.fixture
def loose(tmp_path: Path) -> Path:
    return tmp_path / "some folder" / "try.py"


def kinds(path: Path, text: str, shape: str | None = None) -> list[Kind]:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return [each.kind for each in audit_all([path], parse_shape_key(shape) if shape else None)]


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        ("2 * M * N * K / ms / 1e9", []),
        ("2e-9 * M * N * K / ms", []),
        ("M * N * K / ms * 2e-9", []),
        ("4 * M * N * K / 2 / ms", []),
        ("M * N * K / ms / 1e9", [Kind.FLOPS]),
        ("8 * M * N * K / (ms * 1e9)", [Kind.FLOPS]),
    ],
)
def test_a_printed_rate_counts_two_operations_a_product(loose: Path, rate: str, expected: list[Kind]) -> None:
    assert kinds(loose, f'M = N = K = 4096\nms = measured()\nprint(f"{{{rate}:.1f}} TFLOPS")\n') == expected


def test_events_that_are_used_again_time_the_baseline_too(loose: Path) -> None:
    timed = "t0.record()\n{}\nt1.record()\nt1.synchronize()\n"
    wide = "wide, other = a.float(), b.float()\n"
    told = LOOSE.format(reference="a @ b", atol=1e-3, timed="kernel(a, b)\n" + timed.format("kernel(a, b)") + wide)
    assert kinds(loose, told) == []
    assert kinds(loose, told + timed.format("torch.mm(wide, other)")) == [Kind.BASELINE]


def test_a_script_with_several_sins_is_told_each(loose: Path) -> None:
    script = """
import time, torch
from mine import kernel
a = torch.ones(1024, 1024, device="cuda", dtype=torch.float16)
b = torch.ones(1024, 1024, device="cuda", dtype=torch.float16)
t = time.time()
for _ in range(100):
    c = kernel(a, b)
print("time_ms:", (time.time() - t) * 10)
print("VERIFY: PASS")
"""
    found = kinds(loose, script)
    assert found == [Kind.COLD, Kind.CONSTANT, Kind.CACHED, Kind.UNSYNCHRONISED, Kind.UNPROVED]
    waiting = script.replace('print("time_ms', 'torch.cuda.synchronize()\nprint("time_ms')
    assert Kind.UNSYNCHRONISED not in kinds(loose, waiting)


def test_a_check_after_the_measurement_warms_nothing(loose: Path) -> None:
    script = LOOSE.format(reference="a @ b", atol=1e-3, timed="")
    head, _, check = script.partition("torch.testing")
    timed = (
        "torch.cuda.synchronize()\nt = time.time()\nkernel(a, b)\ntorch.cuda.synchronize()\nprint(time.time() - t)\n"
    )
    assert kinds(loose, script + timed) == []
    assert kinds(loose, f"{head}{timed}torch.testing{check}") == [Kind.COLD]


FIELDS = """
import time
import torch

class Bench:
    def __init__(self, kernel):
        self.kernel = kernel
        self.a = torch.{maker}(8192, 8192, device="cuda", dtype=torch.float16)
        {fill}

    def run(self):
        self.kernel(self.a, self.a)
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(100):
            self.kernel(self.a, self.a)
        {wait}
        print((time.perf_counter() - start) / 100)
"""


@pytest.mark.parametrize(
    ("maker", "fill", "wait", "expected"),
    [
        ("randn", "", "torch.cuda.synchronize()", []),
        ("empty", "self.a.normal_()", "torch.cuda.synchronize()", []),
        ("ones", "", "torch.cuda.synchronize()", [Kind.CONSTANT]),
        ("randn", "", "", [Kind.UNSYNCHRONISED]),
    ],
)
def test_fields_of_an_object_are_followed(loose: Path, maker: str, fill: str, wait: str, expected: list[Kind]) -> None:
    assert kinds(loose, FIELDS.format(maker=maker, fill=fill, wait=wait)) == expected


STEP = """
import time
import torch
from mine import kernel

a = torch.{maker}(8192, 8192, device="cuda", dtype=torch.float16)

def step():
    return kernel(a, a)

{warm}
torch.cuda.synchronize()
start = time.perf_counter()
for _ in range(100):
    step()
{wait}
print((time.perf_counter() - start) / 100)
"""


@pytest.mark.parametrize(
    ("maker", "warm", "wait", "expected"),
    [
        ("randn", "step()", "torch.cuda.synchronize()", []),
        ("zeros", "step()", "torch.cuda.synchronize()", [Kind.CONSTANT]),
        ("randn", "", "torch.cuda.synchronize()", [Kind.COLD]),
        ("randn", "step()", "", [Kind.UNSYNCHRONISED]),
    ],
)
def test_a_timed_function_of_the_script_is_read(
    loose: Path, maker: str, warm: str, wait: str, expected: list[Kind]
) -> None:
    assert kinds(loose, STEP.format(maker=maker, warm=warm, wait=wait)) == expected


@pytest.mark.parametrize("words", ["Results match reference", "All checks passed", "PASS"])
def test_a_pass_that_nothing_proves_is_seen_in_any_case(loose: Path, words: str) -> None:
    assert kinds(loose, f'from mine import kernel\nkernel(1)\nprint("{words}")\n') == [Kind.UNPROVED]


def test_a_shape_holds_a_loose_script_to_its_contract(loose: Path) -> None:
    script = LOOSE.format(reference="a @ b", atol=0.04, timed="")
    assert kinds(loose, script) == []
    assert kinds(loose, script, "matmul_fp16fp32_1024x1024x2048") == [Kind.TOLERANCE]
    assert kinds(loose, script, "matmul_bf16fp32_1024x1024x2048") == [Kind.DTYPE, Kind.TOLERANCE]


def test_tensors_that_the_call_does_not_show_are_guessed(loose: Path) -> None:
    """The reference shows what the kernel takes, here 8 MiB in all, and more than the cache where N is larger."""
    script = LOOSE.format(reference="torch.matmul(a, b)", atol=1e-3, timed=TIMED)
    assert kinds(loose, script.format(operands="*args")) == []
    assert kinds(loose, script.format(operands="x, y").replace("from mine", "from mine import x, y\nfrom mine")) == [
        Kind.CACHED
    ]
    large = script.format(operands="a, b").replace("1 << 10", "1 << 13")
    assert kinds(loose, large) == []


def test_the_command(tree: Tree) -> None:
    checkout = Checkout(tree.root)
    clean = checkout.run("audit", ".")
    assert (clean.returncode, clean.stdout) == (0, "nothing found\n")
    tree.put("srcs", "iter002_own.py", OWN_JUDGE)
    done = checkout.run("audit", str(tree.root))
    assert done.returncode == 1
    assert done.stdout.index("why it matters") < done.stdout.index("iter002_own.py:19: torch.randn")
    assert "  h100/tilelang/srcs/" in done.stdout
    assert len(answer(checkout.run("audit", "--json").stdout)) == 6
    assert "is neither a file nor a folder" in one_line(checkout.run("audit", "nowhere").stderr)
    (tree.root / "empty").mkdir()
    assert "no Python script there" in one_line(checkout.run("audit", "empty").stderr)


def test_many_findings_are_counted_and_no_line_is_wider_than_a_terminal(tree: Tree) -> None:
    for number in range(2, 40):
        tree.put("srcs", f"iter{number:03d}_{'long_' * 12}name.py", f"check(atol={number}, rtol={number})\n")
    findings = audit(tree.root)
    shown = text(findings)
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.count("atol=") + shown.count("rtol=") == 10
    assert "and 66 more; --all shows them" in shown
    everything = text(findings, most=None)
    assert everything.count("atol=") + everything.count("rtol=") == 76
    assert max(map(len, everything.splitlines())) <= 80


def test_names_that_are_not_utf_8(tree: Tree) -> None:
    """Such a name in a path, and in a message about another file."""
    folder = tree.put("srcs", "iter001_wide.py", HONEST.format(block=128)).parent
    for name in (b"iter002_\xff.py", b"iter003_twin.py"):
        (folder / os.fsdecode(name)).write_text(HONEST.format(block=1))
    (folder / os.fsdecode(b"iter004_\xfe.py")).write_text("def kernel(:\n")
    done = Checkout(tree.root).run("audit", ".", "--json")
    assert done.returncode == 1, done.stderr
    torn, twin = answer(done.stdout)
    assert torn["path"].endswith(r"/iter004_\xfe.py")
    assert twin["what"] == r"the same program as iter002_\xff.py"


def test_a_surrogate_that_is_no_byte_is_spelled_out(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    emit("audit", ExitCode.PASSED, {"\ud800": ["é\udcff"], "path": Path("\udfff")}, ["\udfff"])
    document = json.loads(capsysbinary.readouterr().out)
    assert document["data"] == {r"\ud800": [r"é\xff"], "path": r"\udfff"}
    assert document["problems"] == [r"\udfff"]

"""New iterations and starter ladders: numbered, pinned, accepted by the contract, and never written over a file."""

import ast
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import tilelang
from tilelang import tvm

from harness.authoring import scaffold
from harness.catalog import gpus
from harness.catalog.tree import Iteration, Selection, Tree
from harness.errors import UsageError
from harness.iteration import Program
from harness.judge import contract
from harness.judge.contract import Breach, Terms
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.operator import Output
from harness.judge.facts.problem import parse_shape_key
from harness.operators import OPERATORS
from tests.lanes import few

ROOT = Path(__file__).resolve().parents[3]
SHAPE = "matmul_bf16fp32_256x256x256"
CPU_SHAPE = "matmul_f32fp32_32x48x24"
# What one block may have (CUDA programming guide, table of compute capabilities).
SHARED_BYTES = {"sm_80": 163 << 10, "sm_89": 99 << 10, "sm_90a": 227 << 10, "sm_100a": 227 << 10}
FAMILY = '''\
"""An idea of its own: vier Stufen für K."""

import kernels.gemm
from kernels.gemm import pipelined

PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=64, block_N=64, block_K=32, num_stages=4, threads=128)


def build(problem):
    return pipelined(problem, **CONFIG)
'''


def new(
    tree: Tree,
    *,
    gpu: str = "h200",
    shape: str = SHAPE,
    model: str = "me",
    parent: str | None = None,
    tag: str = "idea",
) -> Path:
    return scaffold.new(tree, gpu, shape, model, parent, tag)


def written(tree: Tree, gpu: str) -> list[Iteration]:
    """Every iteration of a GPU key; there must be nothing else under srcs/."""
    iterations, misplaced = tree.scan(gpu, Selection())
    assert misplaced == []
    return iterations


def terms(tree: Tree, path: Path) -> Terms:
    """What a new iteration states, once its author has said what changes."""
    path.write_text(path.read_text().replace(placeholder(path), said(path)))
    return contract.check(tree.parse(path))


def said(path: Path) -> str:
    return f"What changes in {path.stem} and why."


def names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.py"))


def placeholder(path: Path) -> str:
    return contract.PLACEHOLDER.format(name=path.stem)


def build(path: Path, shape_key: str) -> Program:
    """What the file's ``build`` returns."""
    namespace: dict[str, object] = {"__name__": "iteration"}
    exec(compile(path.read_text(), path, "exec"), namespace)
    function = namespace["build"]
    assert callable(function)
    program = function(parse_shape_key(shape_key))
    assert isinstance(program, Program)
    return program


def lower(program: Program, arch: str) -> str:
    """The C or CUDA source of a program."""
    target = tvm.target.Target("c" if arch == "c" else {"kind": "cuda", "arch": arch})
    with tvm.transform.PassContext(opt_level=3, config=dict(program.pass_configs)), target:
        return str(tilelang.lower(program.prim_func, target=target).kernel_source)


# new


def test_an_empty_folder_gets_the_library_first(tree: Tree) -> None:
    path = new(tree, tag="first_steps")
    assert names(path.parent) == ["iter000_torch_matmul", "iter001_first_steps"]
    baseline = terms(tree, path.parent / "iter000_torch_matmul.py")
    assert baseline.parent is None
    first = terms(tree, path)
    assert first.parent == "iter000_torch_matmul"
    assert "block_M=128" in first.config


def test_the_next_iteration_takes_over_the_newest(tree: Tree) -> None:
    first = new(tree)
    first.write_text(first.read_text().replace("block_K=32", "block_K=48"))
    second = new(tree, tag="second")
    assert second.name == "iter002_second.py"
    changed = {line for line in second.read_text().splitlines() if line not in first.read_text().splitlines()}
    assert changed == {f'"""{placeholder(second)}"""', f'PARENT = "{first.stem}"'}
    assert terms(tree, second).parent == first.stem


def test_what_is_to_be_edited_shows_and_an_untouched_copy_is_refused(tree: Tree) -> None:
    new(tree)
    second = new(tree, tag="more")
    assert second.read_text().startswith('"""Say here, in one sentence, what changes in iter002_more and why."""')
    with pytest.raises(Breach, match="still that of `new`"):
        contract.check(tree.parse(second))
    assert terms(tree, second).idea == "What changes in iter002_more and why."


def test_children_of_one_parent_are_not_taken_for_copies(tree: Tree) -> None:
    new(tree)
    new(tree, parent="1", tag="left")
    terms(tree, new(tree, parent="1", tag="left"))


@pytest.mark.parametrize("name", ["1", "01", "001", "iter001", "iter001_wide"])
def test_a_parent_has_many_spellings(tree: Tree, name: str) -> None:
    wide = new(tree, tag="wide")
    wide.write_text(wide.read_text().replace("block_K=32", "block_K=16"))
    new(tree, tag="other", parent="0")
    child = new(tree, tag="child", parent=name)
    assert child.name == "iter003_child.py"
    assert terms(tree, child).parent == "iter001_wide"
    assert "block_K=16" in child.read_text()


def test_a_child_of_the_library_call_is_a_kernel(tree: Tree) -> None:
    new(tree)
    child = new(tree, parent="iter000", tag="afresh")
    assert terms(tree, child).parent == "iter000_torch_matmul"
    assert "baselines" not in child.read_text()


def test_the_scripts_are_written_and_the_build_script_runs(tree: Tree) -> None:
    path = new(tree, gpu="cpu", shape=CPU_SHAPE)
    iteration = tree.parse(path)
    assert tree.script("run", iteration).is_file()
    script = tree.script("build", iteration)
    for part in ("harness", "kernels", "baselines"):
        (tree.root / part).symlink_to(ROOT / part)
    (tree.root / "bin").mkdir()
    (tree.root / "bin" / "python3").symlink_to(sys.executable)
    done = subprocess.run(
        ["bash", script],
        cwd=tree.root,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.splitlines() == ["parse OK", "import OK"], done.stderr


@pytest.mark.parametrize(
    "source",
    [
        FAMILY,
        FAMILY.replace('PARENT = "iter000_torch_matmul"', 'PARENT: str = (\n    "iter000_torch_matmul"\n)'),
        FAMILY.replace('"""An idea of its own: vier Stufen für K."""', '"""An idea on\ntwo lines: für K."""; Ü = "ü"'),
        FAMILY.replace('PARENT = "iter000_torch_matmul"\n', ""),
        FAMILY.replace('"""An idea of its own: vier Stufen für K."""\n', "# A script from elsewhere."),
        FAMILY.replace("\n", "\r\n"),
        "\ufeff" + FAMILY,
    ],
    ids=["plain", "annotated", "umlauts", "no-parent", "no-docstring", "windows", "byte-order-mark"],
)
def test_a_parent_written_by_hand_is_taken_over(tree: Tree, source: str) -> None:
    folder = new(tree).parent
    (folder / "iter002_by_hand.py").write_bytes(source.encode())
    child = new(tree, tag="child")
    found = terms(tree, child)
    assert (found.idea, found.parent) == (said(child), "iter002_by_hand")
    assert found.config == "block_M=64, block_N=64, block_K=32, num_stages=4, threads=128"
    assert child.read_text().count("PARENT") == 1
    assert child.read_text().count('"""') == 2
    assert child.read_text().endswith("return pipelined(problem, **CONFIG)\n")


def test_a_gap_is_not_filled(tree: Tree) -> None:
    folder = new(tree).parent
    (folder / "iter041_far.py").write_text(FAMILY)
    assert new(tree).name == "iter042_idea.py"


def test_the_last_number(tree: Tree) -> None:
    folder = new(tree).parent
    (folder / "iter998_almost.py").write_text(FAMILY)
    assert new(tree).name == "iter999_idea.py"
    with pytest.raises(UsageError, match="999 is the last number"):
        new(tree)


def test_writers_at_the_same_time_get_numbers_of_their_own(tree: Tree) -> None:
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda index: new(tree, tag=f"idea_{index}"), range(16)))
    assert sorted(path.name[:7] for path in paths) == [f"iter{number:03d}" for number in range(1, 17)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gpu": "h900"}, "unknown GPU key 'h900'"),
        ({"shape": "matmul_bf16fp32_256x256"}, "are not MxNxK"),
        ({"shape": "conv_bf16fp32_256x256x256"}, "unknown operator 'conv'"),
        ({"model": "Me"}, "model 'Me'"),
        ({"model": ".."}, "model '..'"),
        ({"tag": "x"}, "tag 'x'"),
        ({"tag": "Stages"}, "tag 'Stages'"),
        ({"tag": "a" * 32}, "tag 'aaaa"),
        ({"tag": "../other"}, "tag '../other'"),
        ({"parent": "3"}, "parent '3' is no iteration of .*leave --from out"),
        ({"parent": "newest"}, "parent 'newest' is no iteration"),
        ({"shape": "matmul_f32fp32_256x256x256"}, "no family in kernels/ takes float32 in .* use bf16 or fp16$"),
        ({"shape": "matmul_e4m3fp32bf16_256x256x256"}, "use operator linear"),
        ({"gpu": "a100", "shape": "linear_e4m3fp32bf16_256x256x256"}, r"a100 \(sm_80\) has no float8_e4m3fn"),
        ({"gpu": "cpu"}, "bfloat16 in operator matmul on a CPU; use f32$"),
        ({"gpu": "cpu", "shape": "matmul_f32fp32bf16_64x64x64"}, "use float32 throughout"),
        ({"shape": "attention_f32fp32_1x2x1x512x64x64"}, "float32 in operator attention on sm_90a; use bf16 or fp16"),
        (
            {"shape": "blockscaledlinear_bf16fp32_64x64x64"},
            "bfloat16 in operator blockscaledlinear on sm_90a; use e4m3",
        ),
        ({"shape": "blockscaledlinear_e4m3fp32bf16_65x64x64"}, "in multiples of 16 bytes"),
        ({"shape": "scaledlinear_e4m3fp32bf16_64x64x65"}, "in multiples of 16 bytes"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_and_leaves_nothing(
    tree: Tree, arguments: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as error:
        new(tree, **arguments)
    assert "\n" not in str(error.value)
    assert list((tree.root / "tuning").rglob("*")) == []


def test_an_unknown_parent_is_answered_with_those_there_are(tree: Tree) -> None:
    new(tree, tag="wide")
    with pytest.raises(UsageError, match="there are iter000_torch_matmul, iter001_wide"):
        new(tree, parent="iter001_narrow")


def test_a_number_that_is_taken_twice_needs_a_full_name(tree: Tree) -> None:
    folder = new(tree, tag="wide").parent
    (folder / "iter001_narrow.py").write_text(FAMILY)
    with pytest.raises(UsageError, match="ambiguous: iter001_narrow, iter001_wide"):
        new(tree, parent="1")
    assert new(tree, parent="iter001_narrow").name == "iter002_idea.py"


def test_a_parent_that_does_not_parse(tree: Tree) -> None:
    folder = new(tree).parent
    (folder / "iter002_torn.py").write_text("def build(problem:\n")
    with pytest.raises(UsageError, match="iter002_torn.py does not parse") as error:
        new(tree)
    assert "\n" not in str(error.value)
    assert new(tree, parent="1").name == "iter003_idea.py"


@pytest.mark.parametrize(
    ("gpu", "shape"),
    [
        ("a100", "matmul_bf16fp32_130x129x67"),
        ("l40s", "linear_e4m3fp32bf16_256x256x256"),
        ("h100", "linear_bf16fp32f32_64x256x256"),
        ("h100", "linear_e4m3fp32bf16_256x256x256"),
        ("h100", "attention_bf16fp32_1x2x1x512x128x128"),
        ("h100", "scaledlinear_e4m3fp32bf16_65x256x272"),
        ("h100", "scaledlinear_bf16fp32f32_256x256x256"),
        ("h100", "blockscaledlinear_e4m3fp32bf16_256x256x256"),
        ("h100", "blockscaledlinear_e4m3fp32f32_68x64x144"),
        ("b200", "matmul_fp16fp32_1x1x1"),
        ("cpu", CPU_SHAPE),
        ("cpu", "linear_f32fp32_7x13x1031"),
    ],
)
def test_the_first_kernel_fits_the_problem(tree: Tree, gpu: str, shape: str) -> None:
    path = new(tree, gpu=gpu, shape=shape)
    terms(tree, path)
    assert lower(build(path, shape), gpus.find(gpu).arch)


@pytest.mark.parametrize(
    ("gpu", "shape"),
    [
        ("a100", "add_f32fp32_4096"),
        ("b200", "attention_bf16fp32_1x2x1x512x64x64"),
        ("h200", "relumatmul_bf16fp32_64x64x64"),
        ("h200", "add_f32fp32_4096"),
        ("cpu", "contiguous_f32fp32_64x32"),
        ("cpu", "addscalar_f32fp32_100"),
    ],
)
def test_an_operator_without_a_family_gets_the_library_and_a_kernel_to_write(tree: Tree, gpu: str, shape: str) -> None:
    path = new(tree, gpu=gpu, shape=shape)
    assert [name[:7] for name in names(path.parent)] == ["iter000", "iter001"]
    assert terms(tree, path).parent == names(path.parent)[0]
    assert len(build(path, shape).prim_func.params) == len(parse_shape_key(shape).tensors)
    assert lower(build(path, shape), gpus.find(gpu).arch)


# starter


@pytest.mark.parametrize("gpu", list(gpus.table()))
def test_a_starter_ladder_keeps_the_contract(tree: Tree, gpu: str) -> None:
    paths = scaffold.starter(tree, gpus.find(gpu))
    iterations = written(tree, gpu)
    assert sorted(paths) == sorted(each.path for each in iterations)
    problems = {each.shape_key for each in iterations}
    assert len(problems) >= 2
    for key in problems:
        ladder = [each for each in iterations if each.shape_key == key]
        assert [each.number for each in ladder] == list(range(len(ladder)))
        assert len(ladder) >= 4
        found = [contract.check(each) for each in ladder]
        assert [each.parent for each in found[1:]] == [each.name for each in ladder[:-1]]
        assert len({each.config for each in found}) == len(found)
        assert all(tree.script("run", each).is_file() for each in ladder)


def test_a_starter_ladder_is_written_once(tree: Tree) -> None:
    gpu = gpus.find("a100")
    paths = scaffold.starter(tree, gpu)
    paths[1].write_text("# mine now\n")
    assert scaffold.starter(tree, gpu) == []
    assert paths[1].read_text() == "# mine now\n"


def test_problems_without_a_ladder_get_the_library_and_a_family_if_one_takes_them(tree: Tree) -> None:
    keys = ["matmul_f32fp32_64x64x64", "relumatmul_bf16fp32_64x64x64"]
    paths = scaffold.first_ladders(tree, gpus.find("cpu"), keys)
    assert [path.name.partition("_")[0] for path in paths] == ["iter000", "iter001", "iter000"]
    assert [path.parts[-3] for path in paths] == [keys[0], keys[0], keys[1]]
    assert scaffold.first_ladders(tree, gpus.find("cpu"), keys) == []


def test_a_skeleton_writes_every_output(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks share the axes that all outputs have; an output in an input's memory is that parameter."""
    operator = replace(
        OPERATORS["copy"],
        outputs={"mean": Output("M"), "y": Output("M, N"), "total": Output(inplace="x"), "top": Output("M, 2")},
        sketch=None,
    )
    monkeypatch.setitem(OPERATORS, "copy", operator)
    source = scaffold.skeleton(
        parse_shape_key("copy_f32fp32_8x16"), gpus.find("cpu"), "It writes zeros.", "iter000_torch_copy"
    )
    assert "with T.Kernel(y_shape[0]) as b0:" in source
    assert re.findall(r"T\.Tensor\((\w+)_shape", source) == ["x", "mean", "y", "top"]
    assert re.findall(r"^ +(\w+\[.*) = 0", source, re.MULTILINE) == ["mean[b0]", "y[b0, i]", "x[b0, i]", "top[b0, i]"]
    compile(source, "skeleton.py", "exec")


def test_a_tree_with_one_iteration_gets_no_ladder(tree: Tree) -> None:
    new(tree)
    assert scaffold.starter(tree, gpus.find("h200")) == []
    assert len(written(tree, "h200")) == 2


def test_an_empty_folder_is_no_iteration(tree: Tree) -> None:
    (tree.folder("cpu") / "srcs").mkdir(parents=True)
    assert scaffold.starter(tree, gpus.find("cpu"))


def test_an_architecture_without_a_ladder_is_refused(tree: Tree) -> None:
    with pytest.raises(UsageError, match="no starter ladder is made for sm_75"):
        scaffold.starter(tree, Gpu(arch="sm_75", l2_mib=4, key="t4"))


@pytest.mark.parametrize("gpu", few(["a100", "l40s", "h100", "b200", "cpu"], "a100", "cpu"))
def test_a_starter_ladder_lowers_and_fits(tree: Tree, gpu: str) -> None:
    row = gpus.find(gpu)
    scaffold.starter(tree, row)
    for each in written(tree, gpu):
        if each.number == 0:
            continue
        source = lower(build(each.path, each.shape_key), row.arch)
        assert ("wgmma" in source) == (row.arch == "sm_90a"), each
        if not row.is_cpu:
            assert shared_bytes(each.path) <= SHARED_BYTES[row.arch], each


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
@pytest.mark.parametrize("gpu", ["a100", "l40s", "h100", "b200"])
def test_a_starter_ladder_compiles_without_spilling(tree: Tree, gpu: str, tmp_path: Path) -> None:
    arch, package = gpus.find(gpu).arch, Path(tilelang.__file__).parent
    scaffold.starter(tree, gpus.find(gpu))
    include = [f"-I{package / 'src'}", f"-I{package / '3rdparty' / 'cutlass' / 'include'}"]

    def compiled(file: Path) -> str:
        options = ["-std=c++17", f"-arch={arch}", "-cubin", "-Xptxas", "-v", *include]
        command = ["nvcc", *options, "-o", str(file.with_suffix(".cubin")), str(file)]
        return subprocess.run(command, capture_output=True, text=True, timeout=200).stderr

    files = []
    for each in written(tree, gpu):
        if each.number > 0 and each.problem.operator == "matmul":
            files.append(tmp_path / f"{each.name}.cu")
            files[-1].write_text(lower(build(each.path, each.shape_key), arch))
    assert files
    with ThreadPoolExecutor(2) as pool:
        for file, answer in zip(files, pool.map(compiled, files), strict=True):
            assert "0 bytes spill stores, 0 bytes spill loads" in answer, f"{file.name}: {answer}"


def shared_bytes(path: Path) -> int:
    """Shared memory of the stages that a 16-bit iteration pins, and of its store buffers."""
    config = pinned(path)
    stages = int(config["num_stages"]) * (int(config["block_M"]) + int(config["block_N"])) * int(config["block_K"]) * 2
    buffers = int(config.get("epilogue_buffers", 0)) * int(config["block_M"]) * int(config.get("epilogue_N", 0)) * 2
    return stages + buffers


def pinned(path: Path) -> dict[str, str]:
    call = next(
        node.value
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CONFIG"
    )
    assert isinstance(call, ast.Call)
    return {keyword.arg or "": ast.unparse(keyword.value) for keyword in call.keywords}


# form


@pytest.mark.parametrize("gpu", ["a100", "h100", "cpu"])
def test_the_text_is_in_ruffs_form(tree: Tree, gpu: str) -> None:
    pytest.importorskip("ruff")
    scaffold.starter(tree, gpus.find(gpu))
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "120", "--check", "--diff"]
    done = subprocess.run([*command, tree.root], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


ROWS = "linear_f32fp32_8x16x32", "linear_f32fp32_13x16x32", "linear_f32fp32_40x16x32"


def rows_kernel(parent: str = "iter000_torch_matmul") -> str:
    return FAMILY.replace("iter000_torch_matmul", parent)


def test_an_iteration_is_bound_to_other_ladders_as_their_next(tree: Tree) -> None:
    new(tree, gpu="cpu", shape=ROWS[0])
    path = tree.source("cpu", ROWS[0], "me", "iter002_any_rows")
    path.write_text(rows_kernel())
    new(tree, gpu="cpu", shape=ROWS[2])
    own, *copies = scaffold.bind(tree, "cpu", ROWS[0], "me", "2", ROWS[1:])
    assert own == path
    assert [copy.stem for copy in copies] == ["iter001_any_rows", "iter002_any_rows"]
    assert [copy.read_bytes() for copy in copies] == [path.read_bytes()] * 2
    assert [contract.check(tree.parse(copy)).parent for copy in copies] == ["iter000_torch_matmul"] * 2
    assert scaffold.bind(tree, "cpu", ROWS[0], "me", "2", ROWS[1:]) == [path]


@pytest.mark.parametrize(
    ("source", "other", "told"),
    [
        (rows_kernel("iter001_idea"), ROWS[1], "only an iteration with PARENT iter000_torch_matmul stands in ladders"),
        (rows_kernel(), "matmul_f32fp32_8x16x32", "stands in ladders of other linears"),
        ("CONFIG = 1\n", ROWS[1], "iter002_any_rows.py: line 1: no docstring"),
        (rows_kernel(), "linear_f32fp32_8x16", "dimensions '8x16' are not MxNxK"),
    ],
)
def test_what_cannot_be_bound_is_refused_and_nothing_is_written(tree: Tree, source: str, other: str, told: str) -> None:
    new(tree, gpu="cpu", shape=ROWS[0])
    tree.source("cpu", ROWS[0], "me", "iter002_any_rows").write_text(source)
    with pytest.raises(UsageError, match=re.escape(told)):
        scaffold.bind(tree, "cpu", ROWS[0], "me", "2", [other])
    assert tree.shapes("cpu") == [ROWS[0]]

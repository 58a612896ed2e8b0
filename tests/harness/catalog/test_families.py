"""Families describe themselves: the harness finds each by its folder, and none by its name."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.authoring import scaffold
from harness.catalog import gpus
from harness.catalog.families import DESCRIPTION, Families, Family, imported
from harness.catalog.tree import Selection, Tree
from harness.errors import UsageError
from harness.extras.profile import advice
from harness.judge import contract
from harness.judge.facts.hashes import families_sha256
from harness.judge.facts.problem import parse_shape_key
from tests.harness.checkout import ROOT, Checkout

CPU, H200 = gpus.find("cpu"), gpus.find("h200")
FAMILIES = Families.of(ROOT)
DESCRIPTIONS = sorted(path.relative_to(ROOT) for path in (ROOT / "kernels").rglob(DESCRIPTION))

# A family for an operator that none of the checkout takes, all of it in one folder.
KERNEL = '''"""A product of matrices with the negative elements of A at zero, in plain loops."""

import tilelang.cpu.language as T

from harness.iteration import Problem, Program


def relu_loops(problem: Problem, *, order: str) -> Program:
    M, N, K = problem.dims
    if order not in ("mkn", "mnk"):
        raise ValueError(f"order='{order}' is not mkn or mnk")

    @T.prim_func
    def main(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1):
            for m, n in T.grid(M, N):
                C[m, n] = 0.0
            if order == "mkn":
                for m, k, n in T.grid(M, K, N):
                    C[m, n] += T.max(A[m, k], 0.0) * B[k, n]
            else:
                for m, n, k in T.grid(M, N, K):
                    C[m, n] += T.max(A[m, k], 0.0) * B[k, n]

    return Program(main)
'''
DESCRIBED = '''"""What ``kernels.mine.relu_loops`` takes."""

from harness.catalog.families import Draft, Family

NAME = "kernels.mine.relu_loops"
STEPS = (
    Draft("in_mkn", "Rows of B are read in order.", NAME, {"order": "mkn"}),
    Draft("in_mnk", "Columns of B are read in order.", NAME, {"order": "mnk"}),
)

FAMILY = Family(
    name=NAME,
    operators={"relumatmul": ("f32",)},
    architectures=("c",),
    space={"order": ["mkn", "mnk", "kmn"]},
    ideas={"larger_tile": "order='mkn'"},
    draft=lambda problem, gpu: STEPS[0],
    starter=lambda gpu: {"relumatmul_f32fp32_16x16x16": STEPS},
)
'''
SHAPE = "relumatmul_f32fp32_32x48x16"
SURVEY = f"""
from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.extras.tune.survey import look
from harness.judge.child.brief import Brief
from harness.judge.facts.problem import parse_shape_key
from harness.catalog.families import Families
problem, cpu, root = parse_shape_key("{SHAPE}"), gpus.find("cpu"), Tree.here().root
found = look(Brief(root, problem, cpu, None), (Families.of(root).searched(problem, cpu).name,), carver=False)
print([entry.config for entry in found.entries], found.reasons)
"""


@pytest.fixture
def extended(checkout: Checkout) -> Checkout:
    """A checkout with one folder more."""
    folder = checkout.root / "kernels" / "mine"
    folder.mkdir()
    (folder / "__init__.py").write_text(KERNEL)
    (folder / DESCRIPTION).write_text(DESCRIBED)
    return checkout


@pytest.fixture
def kernels(tree: Tree) -> Path:
    folder = tree.root / "kernels"
    folder.mkdir()
    return folder


def describe(folder: Path, name: str = "kernels.a.a", more: str = "") -> Path:
    folder.mkdir()
    source = f"from harness.catalog.families import Family\nFAMILY = Family(name='{name}', operators={{}}, "
    (folder / DESCRIPTION).write_text(f"{source}architectures=('c',), space=[]{more})\n")
    return folder / DESCRIPTION


def test_new_finds_a_family_in_a_new_folder(extended: Checkout) -> None:
    path = scaffold.new(extended.tree, "cpu", SHAPE, "me", None)
    assert "from kernels.mine import relu_loops\n" in path.read_text()
    path.write_text(path.read_text().replace(contract.PLACEHOLDER.format(name=path.stem), "The first."))
    done = extended.run("verify", "--gpu", "cpu", "--shape", SHAPE, "--model", "me", "--iter", "1")
    assert done.returncode == 0, done.stderr


def test_a_search_finds_a_family_in_a_new_folder(extended: Checkout) -> None:
    command = [sys.executable, "-c", SURVEY]
    done = subprocess.run(command, cwd=extended.root, env=extended.environment(), capture_output=True, text=True)
    assert done.stdout.startswith("[{'order': 'mkn'}, {'order': 'mnk'}] "), done.stderr
    assert "is not mkn or mnk" in done.stdout


def test_a_starter_ladder_has_the_steps_of_a_family_in_a_new_folder(extended: Checkout) -> None:
    scaffold.starter(extended.tree, CPU)
    found, _ = extended.tree.scan("cpu", Selection("relumatmul_f32fp32_16x16x16"))
    assert [each.tag for each in found if each.number > 0] == ["in_mkn", "in_mnk"]


def test_advice_names_a_family_in_a_new_folder(extended: Checkout) -> None:
    assert Families.of(extended.root).examples(CPU) == {"larger_tile": "kernels.mine.relu_loops with order='mkn'"}


@pytest.mark.parametrize("family", FAMILIES.members, ids=lambda family: family.name)
def test_each_description_names_a_function_in_its_folder(family: Family) -> None:
    places = {inspect.getfile(imported(family.name)).rpartition("/")[0]}
    described = {str(ROOT / path.parent) for path in DESCRIPTIONS if family.name in (ROOT / path).read_text()}
    assert places & described, f"{family.name} is in {places}, described in {described}"


def test_reading_the_families_imports_no_kernel() -> None:
    script = (
        "import sys; from pathlib import Path; from harness.catalog.families import Families;"
        "assert Families.of(Path.cwd()).members;"
        "print([name for name in ('kernels', 'tilelang', 'torch', 'tvm') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_no_description_is_in_a_hash(checkout: Checkout) -> None:
    """A row stays valid when a space, an idea or a step changes, of its own family or another."""
    named = [".".join(path.parent.parts).rpartition(".") for path in DESCRIPTIONS]
    paths = [
        checkout.write(f"iter{number:03d}_idea", f"from {package} import {name}\n")
        for number, (package, _, name) in enumerate(named, start=1)
    ]
    before = {path: families_sha256(checkout.root, path) for path in paths}
    for each in checkout.root.glob(f"kernels/**/{DESCRIPTION}"):
        each.write_text("")
    assert {path: families_sha256(checkout.root, path) for path in paths} == before


@pytest.mark.parametrize(
    ("gpu", "shape", "begins", "searched"),
    [
        ("cpu", "matmul_f32fp32_64x64x64", "cpu.register_blocked", "cpu.register_blocked"),
        ("a100", "linear_bf16fp32_64x64x64", "gemm.pipelined", "gemm.pipelined"),
        ("b200", "linear_e4m3fp32bf16_64x64x64", "gemm.pipelined", "gemm.pipelined"),
        ("h200", "matmul_bf16fp32_64x64x64", "gemm.pipelined", "gemm.warp_specialized"),
        ("h100", "scaledlinear_e4m3fp32bf16_64x64x64", "gemm.warp_specialized", "gemm.warp_specialized"),
        ("h200", "blockscaledlinear_e4m3fp32bf16_64x64x64", "gemm.block_scaled", "gemm.block_scaled"),
        ("h200", "groupedlinear_bf16fp32_64x64x64x4", "gemm.grouped", "gemm.grouped"),
        ("h200", "int4linear_bf16fp32_16x64x128", "gemm.int4_weights", "gemm.int4_weights"),
        ("h200", "attention_fp16fp32_1x2x1x512x64x64", "flash_attention.forward", "flash_attention.forward"),
        ("h200", "pageddecode_bf16fp32_2x8x1x64x2x64", "paged_decode.paged_decode", "paged_decode.paged_decode"),
        ("h200", "mladecode_bf16fp32_2x64x512x64x2x64", "latent_decode.latent_decode", "latent_decode.latent_decode"),
        ("h200", "varlenattention_fp16fp32_2x2x1x64x64x64", "varlen_attention.varlen", "varlen_attention.varlen"),
        (
            "h200",
            "attentionbackward_bf16fp32_1x2x256x128",
            "attention_backward.backward",
            "attention_backward.backward",
        ),
    ],
)
def test_which_family_begins_and_which_is_searched(gpu: str, shape: str, begins: str, searched: str) -> None:
    problem, row = parse_shape_key(shape), gpus.find(gpu)
    assert FAMILIES.draft(problem, row).family == f"kernels.{begins}"
    assert FAMILIES.searched(problem, row).name == f"kernels.{searched}"


@pytest.mark.parametrize(
    ("gpu", "tags"),
    [
        ("cpu", "scalar_gemm optimizing_compiler register_vectors sixteen_lanes"),
        ("a100", "stock_pipelined wide_tiles swizzled_panels long_k_steps"),
        ("l40s", "stock_pipelined eight_warps swizzled_panels wide_tiles"),
        ("h200", "stock_pipelined wide_tiles warp_specialized persistent"),
        ("b200", "stock_pipelined wide_tiles swizzled_panels deep_ring tma_store"),
    ],
)
def test_the_steps_of_a_starter_ladder_come_in_order(gpu: str, tags: str) -> None:
    ladders = FAMILIES.starter(gpus.find(gpu)).values()
    assert [[step.tag for step in steps] for steps in ladders] == [tags.split()] * 2


def test_families_have_short_names() -> None:
    assert FAMILIES.named("register_blocked", CPU).name == "kernels.cpu.register_blocked"
    assert FAMILIES.named("kernels.gemm.stream_k", H200).name == "kernels.gemm.stream_k"
    for wrong in ("os.path", "kernels.x", "a b", "kernels.gemm.roles"):
        with pytest.raises(UsageError, match=f"there is no family '{wrong}'; those for a CPU are kernels.cpu.plain_l"):
            FAMILIES.named(wrong, CPU)
    with pytest.raises(UsageError, match=r"kernels.gemm.stream_k is for sm_90a, not for a CPU"):
        FAMILIES.named("stream_k", CPU)


def test_a_family_is_searched_for_its_own_operators() -> None:
    matmul, add = parse_shape_key("matmul_f32fp32_64x64x64"), parse_shape_key("add_f32fp32_64")
    assert FAMILIES.fitting("register_blocked", matmul, CPU).name == "kernels.cpu.register_blocked"
    with pytest.raises(UsageError, match=r"register_blocked does not take add_f32fp32_64; it takes matmul in f32, lin"):
        FAMILIES.fitting("register_blocked", add, CPU)
    with pytest.raises(UsageError, match=r"stream_k does not take matmul_f32fp32_64x64x64; it takes matmul in bf16 or"):
        FAMILIES.fitting("stream_k", matmul, H200)


def test_ideas_have_the_tags_of_the_advice() -> None:
    known = set(re.findall(r'"([a-z0-9_]+)",\n', inspect.getsource(advice)))
    assert {tag for family in FAMILIES.members for tag in family.ideas} <= known


def test_a_tree_without_kernels_has_those_of_the_checkout(tree: Tree) -> None:
    assert [each.name for each in Families.of(tree.root).members] == [each.name for each in FAMILIES.members]


def test_a_repository_has_its_own_beside_those_that_are_shipped(tree: Tree, kernels: Path) -> None:
    describe(kernels / "a")
    shipped = {each.name for each in FAMILIES.members}
    assert {each.name for each in Families.of(tree.root).members} == {*shipped, "kernels.a.a"}


def test_a_checkout_has_no_others(tree: Tree, kernels: Path) -> None:
    (tree.root / "harness" / "judge").mkdir(parents=True)
    describe(kernels / "a")
    families = Families.of(tree.root)
    assert [each.name for each in families.members] == ["kernels.a.a"]
    with pytest.raises(UsageError, match=r"no family in kernels/ takes operator 'matmul'$"):
        families.draft(parse_shape_key("matmul_f32fp32_64x64x64"), CPU)


def test_short_names_may_be_ambiguous(tree: Tree, kernels: Path) -> None:
    describe(kernels / "a")
    describe(kernels / "b", "kernels.b.a")
    with pytest.raises(UsageError, match="family 'a' is ambiguous: kernels.a.a, kernels.b.a"):
        Families.of(tree.root).named("a", CPU)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("FAMILY = (", "cannot be read: SyntaxError"),
        ("import no_such_module", "cannot be read: ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise ValueError('two\\nlines')", r"cannot be read: ValueError: two\\nlines"),
        ("", "cannot be read: AttributeError: .*FAMILY"),
        ("FAMILY = 3", "FAMILY must be a harness.catalog.families.Family"),
    ],
)
def test_a_description_that_cannot_be_read_is_named_in_one_line(
    tree: Tree, kernels: Path, source: str, message: str
) -> None:
    path = describe(kernels / "a")
    path.write_text(source)
    with pytest.raises(UsageError, match=rf"{path}(:1)?: {message}") as error:
        Families.of(tree.root)
    assert "\n" not in str(error.value)


def test_two_folders_cannot_describe_one_family(tree: Tree, kernels: Path) -> None:
    describe(kernels / "a")
    path = describe(kernels / "b")
    with pytest.raises(UsageError, match=f"{path}: another folder describes family kernels.a.a"):
        Families.of(tree.root)


def test_families_cannot_follow_each_other_in_a_circle(tree: Tree, kernels: Path) -> None:
    describe(kernels / "a", more=", follows='kernels.b.b'")
    describe(kernels / "b", "kernels.b.b", ", follows='kernels.a.a'")
    with pytest.raises(UsageError, match="follow each other in a circle"):
        Families.of(tree.root)

"""Where files lie, what a path says, and what narrows a run."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.catalog.tree import Selection, Tree, check_model
from harness.errors import UsageError

SHAPE = "matmul_bf16fp32_8x16x32"


def put(tree: Tree, relative: str) -> Path:
    path = tree.root / "tuning" / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_a_path_says_all_of_an_iteration(tree: Tree) -> None:
    path = tree.root / f"tuning/h200/tilelang/srcs/{SHAPE}/some-model.2/iter007_wide_tiles.py"
    iteration = tree.parse(path)
    assert (iteration.gpu, iteration.shape_key, iteration.model) == ("h200", SHAPE, "some-model.2")
    assert (iteration.number, iteration.tag, iteration.name) == (7, "wide_tiles", "iter007_wide_tiles")
    assert iteration.path == path
    assert str(iteration) == f"h200/{SHAPE}/some-model.2/iter007_wide_tiles"


def test_the_files_beside_an_iteration_lie_where_the_contract_says(tree: Tree) -> None:
    iteration = tree.parse(tree.root / f"tuning/h200/tilelang/srcs/{SHAPE}/me/iter007_wide_tiles.py")
    base = tree.root / "tuning/h200/tilelang"
    assert tree.script("build", iteration) == base / f"cmd/{SHAPE}/me/build_iter007.sh"
    assert tree.script("run", iteration) == base / f"cmd/{SHAPE}/me/run_iter007.sh"
    assert tree.timing(iteration) == base / f"perf/{SHAPE}/me/timing_iter007.txt"
    assert tree.records("h200", SHAPE, "me") == base / f"logs/{SHAPE}/me/results.jsonl"
    assert tree.baseline("h200", SHAPE) == base / f"baseline/{SHAPE}/results.jsonl"


@pytest.mark.parametrize(
    ("relative", "names"),
    [
        (f"cpu/tilelang/srcs/{SHAPE}/me/iter1_tag.py", "the file name is not iter<NNN>_<tag>.py"),
        (f"cpu/tilelang/srcs/{SHAPE}/me/iter0001_tag.py", "the file name is not"),
        (f"cpu/tilelang/srcs/{SHAPE}/me/iter001.py", "the file name is not"),
        (f"cpu/tilelang/srcs/{SHAPE}/me/iter001_Tag.py", "the file name is not"),
        (f"cpu/tilelang/srcs/{SHAPE}/me/iter001_t.py", "the file name is not"),
        (f"cpu/tilelang/srcs/{SHAPE}/me/iter001_{'t' * 32}.py", "the file name is not"),
        (f"cpu/tilelang/srcs/{SHAPE}/me/iter٠٠١_tag.py", "the file name is not"),
        (f"cpu/tilelang/srcs/{SHAPE}/Me/iter001_tag.py", "model 'Me'"),
        (f"cpu/tilelang/srcs/{SHAPE}/.me/iter001_tag.py", "model '.me'"),
        ("cpu/tilelang/srcs/matmul_int8fp32_8x8x8/me/iter001_tag.py", "unknown dtypes 'int8fp32'"),
        ("cpu/tilelang/srcs/conv_bf16fp32_8x8x8/me/iter001_tag.py", "unknown operator 'conv'"),
        (f"cpu/tilelang/srcs/{SHAPE}/iter001_tag.py", "its path must be tuning/<gpu>/tilelang/srcs/"),
        (f"cpu/tilelang/srcs/{SHAPE}/me/deeper/iter001_tag.py", "its path must be"),
        (f"cpu/triton/srcs/{SHAPE}/me/iter001_tag.py", "its path must be"),
        ("../elsewhere/iter001_tag.py", "its path must be"),
    ],
)
def test_a_path_that_says_nothing_is_refused_and_its_fault_named(tree: Tree, relative: str, names: str) -> None:
    with pytest.raises(UsageError) as error:
        tree.parse(tree.root / "tuning" / relative)
    assert names in str(error.value)
    assert Path(relative).name in str(error.value)


@given(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=60))
def test_any_file_name_is_an_iteration_or_refused(name: str) -> None:
    tree = Tree(Path("/checkout"))
    try:
        iteration = tree.parse(Path(f"/checkout/tuning/cpu/tilelang/srcs/{SHAPE}/me") / name)
    except UsageError:
        return
    assert f"{iteration.name}.py" == iteration.path.name


def test_scan_gives_the_ladder_in_order_and_the_files_that_are_none(tree: Tree) -> None:
    base = "cpu/tilelang/srcs"
    for relative in (
        f"{base}/{SHAPE}/you/iter001_tag.py",
        f"{base}/{SHAPE}/me/iter010_tag.py",
        f"{base}/{SHAPE}/me/iter002_tag.py",
        f"{base}/linear_f32fp32_8x8x8/me/iter000_tag.py",
        f"{base}/{SHAPE}/me/__pycache__/iter003_tag.py",
        f"h200/tilelang/srcs/{SHAPE}/me/iter004_tag.py",
    ):
        put(tree, relative)
    stray = put(tree, f"{base}/{SHAPE}/me/notes.py")
    found, misplaced = tree.scan("cpu", Selection())
    assert [str(iteration) for iteration in found] == [
        "cpu/linear_f32fp32_8x8x8/me/iter000_tag",
        f"cpu/{SHAPE}/me/iter002_tag",
        f"cpu/{SHAPE}/me/iter010_tag",
        f"cpu/{SHAPE}/you/iter001_tag",
    ]
    assert [each.path for each in misplaced] == [stray]


def test_a_folder_or_a_dangling_link_is_misplaced_and_hides_no_other(tree: Tree) -> None:
    good = put(tree, f"cpu/tilelang/srcs/{SHAPE}/me/iter001_tag.py")
    (good.parent / "iter002_folder.py").mkdir()
    (good.parent / "iter003_link.py").symlink_to("nowhere.py")
    found, misplaced = tree.scan("cpu", Selection())
    assert [iteration.path for iteration in found] == [good]
    assert [each.path.name for each in misplaced] == ["iter002_folder.py", "iter003_link.py"]
    assert all("not a file that can be read" in each.reason for each in misplaced)


def test_scan_of_a_key_without_a_tree_finds_nothing(tree: Tree) -> None:
    assert tree.scan("b200", Selection()) == ([], [])


@pytest.mark.parametrize(
    ("selection", "numbers"),
    [
        (Selection(), [1, 2, 12]),
        (Selection(shape=SHAPE), [1, 2]),
        (Selection(shape="linear"), [12]),
        (Selection(shape="matmul", model="you"), []),
        (Selection(model="you"), [12]),
        (Selection(iteration="2"), [2]),
        (Selection(iteration="002"), [2]),
        (Selection(iteration="iter002"), [2]),
        (Selection(iteration="iter002_tag"), [2]),
        (Selection(iteration="iter002_other"), []),
        (Selection(shape=SHAPE, iteration="12"), []),
    ],
)
def test_a_selection_narrows(tree: Tree, selection: Selection, numbers: list[int]) -> None:
    for path in (f"{SHAPE}/me/iter001_tag", f"{SHAPE}/me/iter002_tag", "linear_f32fp32_8x8x8/you/iter012_tag"):
        put(tree, f"cpu/tilelang/srcs/{path}.py")
    assert sorted(iteration.number for iteration in tree.scan("cpu", selection)[0]) == numbers


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        (Selection(shape="matmul_8x8x8"), "shape key 'matmul_8x8x8'"),
        (Selection(model="No Model"), "model 'No Model'"),
        (Selection(iteration="third"), "iteration 'third'"),
        (Selection(iteration=""), "iteration ''"),
    ],
)
def test_a_selection_that_can_name_nothing_is_refused(tree: Tree, selection: Selection, names: str) -> None:
    with pytest.raises(UsageError, match=names):
        tree.scan("cpu", selection)


@pytest.mark.parametrize(
    ("selection", "reported"),
    [
        (Selection(), ["iter2_tag.py", "notes.py"]),
        (Selection(shape=SHAPE), ["iter2_tag.py"]),
        (Selection(shape="matmul"), ["iter2_tag.py"]),
        (Selection(model="you"), ["notes.py"]),
        (Selection(iteration="2"), ["iter2_tag.py"]),
        (Selection(shape=SHAPE, iteration="1"), []),
    ],
)
def test_a_narrowed_scan_reports_only_strays_that_may_be_meant(
    tree: Tree, selection: Selection, reported: list[str]
) -> None:
    put(tree, f"cpu/tilelang/srcs/{SHAPE}/me/iter001_tag.py")
    put(tree, f"cpu/tilelang/srcs/{SHAPE}/me/iter2_tag.py")
    put(tree, "cpu/tilelang/srcs/linear_f32fp32_8x8x8/you/notes.py")
    assert sorted(each.path.name for each in tree.scan("cpu", selection)[1]) == reported


def test_the_root_is_named_or_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named, working = tmp_path / "named", tmp_path / "working"
    (working / "tuning").mkdir(parents=True)
    (working / "part" / "tuning").mkdir(parents=True)
    monkeypatch.chdir(working)
    monkeypatch.delenv("TILEBENCH_ROOT", raising=False)
    assert Tree.here().root == working
    monkeypatch.setenv("TILEBENCH_ROOT", str(named))
    with pytest.raises(UsageError, match=f"^TILEBENCH_ROOT is {named}, which is no folder$"):
        Tree.here()
    named.mkdir()
    assert Tree.here().root == named
    monkeypatch.delenv("TILEBENCH_ROOT")
    monkeypatch.chdir(tmp_path)
    assert (Tree.here().root / "harness" / "catalog" / "tree.py").is_file()
    (working / "tilebench.toml").touch()
    monkeypatch.chdir(working / "part")  # a folder called tuning is no mark beside the settings above
    assert Tree.here().root == working


@pytest.mark.parametrize("model", ["me", "gpt-5.1", "0", "a.b-c"])
def test_good_model_names(model: str) -> None:
    check_model(model)


@pytest.mark.parametrize("model", ["", "..", "-me", "Me", "a/b", "a b", "me\n"])
def test_bad_model_names(model: str) -> None:
    with pytest.raises(UsageError, match="model"):
        check_model(model)

"""Environments: what words name, a layer over the running one from a small index, and one line for what fails."""

import os
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.catalog.tree import Tree
from harness.errors import InfrastructureError, UsageError
from harness.extras.versus import environment as environment_module
from harness.extras.versus.environment import PythonEnvironment, environment, pair, releases, support
from tests.harness.extras.versus.index import wheel


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package index with tabulate 0.0.1 and 0.0.2, and 0.0.3 for a Python that is gone."""
    folder = tmp_path_factory.mktemp("index") / "tabulate"
    folder.mkdir()
    needs = {"0.0.1": ">=3.8", "0.0.2": ">=3.8", "0.0.3": "<3"}
    files = [(wheel(folder, version, needed).name, needed) for version, needed in needs.items()]
    links = (f'<a href="{name}" data-requires-python="{each.replace("<", "&lt;")}">{name}</a>' for name, each in files)
    (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>")
    return folder.parent


@pytest.fixture(autouse=True)
def only_this_index(monkeypatch: pytest.MonkeyPatch, index: Path) -> None:
    for name, value in {"CONFIG_FILE": "/dev/null", "INDEX_URL": index.as_uri(), "FIND_LINKS": ""}.items():
        monkeypatch.setenv(f"PIP_{name}", value)


@pytest.fixture(scope="module")
def layer_tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return Tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture
def layer(layer_tree: Tree) -> PythonEnvironment:
    return environment(layer_tree, "tabulate==0.0.1")


def moved(there: PythonEnvironment, here: PythonEnvironment) -> dict[str, tuple[str | None, str | None]]:
    """The versions that differ."""
    names = {*there.versions, *here.versions}
    pairs = {name: (there.versions.get(name), here.versions.get(name)) for name in names}
    return {name: (one, other) for name, (one, other) in pairs.items() if one != other}


def test_a_layer_changes_what_was_named_and_nothing_else(layer_tree: Tree, layer: PythonEnvironment) -> None:
    assert moved(layer, environment(layer_tree, ".")) == {"tabulate": ("0.0.1", metadata.version("tabulate"))}
    code = "import tabulate, numpy; print(tabulate.__version__, numpy.__version__)"
    said = subprocess.run([layer.python, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert said == ["0.0.1", metadata.version("numpy")]
    assert layer.python.is_relative_to(layer_tree.root / ".cache")
    assert (layer.tilelang, layer.torch) == (metadata.version("tilelang"), metadata.version("torch"))


def test_an_environment_holds_what_its_builds_will_find(
    layer_tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its children have a PYTHONPATH of their own, so this one says nothing of them."""
    found = tmp_path / "tabulate-9.9.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: tabulate\nVersion: 9.9\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert environment(layer_tree, ".").versions["tabulate"] == metadata.version("tabulate")


def test_a_layer_has_the_running_z3_beside_it(layer: PythonEnvironment) -> None:
    code = "import pathlib, tabulate, z3; print(z3.__file__, pathlib.Path(tabulate.__file__).parents[1] / 'z3')"
    done = subprocess.run([layer.python, "-c", code], capture_output=True, text=True, check=True)
    file, beside = map(Path, done.stdout.split())
    assert file.parent == beside
    spec = find_spec("z3")
    assert spec is not None
    assert spec.origin is not None
    assert file.resolve() == Path(spec.origin).resolve()


def test_a_layer_is_built_once(layer_tree: Tree, layer: PythonEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "file:///nowhere")
    again = environment(layer_tree, " tabulate == 0.0.1 ")
    assert (again.python, again.sha256) == (layer.python, layer.sha256)


def test_what_is_there_needs_no_layer(layer_tree: Tree) -> None:
    running = environment(layer_tree, f"tilelang=={metadata.version('tilelang')}")
    assert running.python == Path(sys.executable)
    assert moved(running, environment(layer_tree, ".")) == {}


def test_an_environment_has_a_cache_of_its_own(layer_tree: Tree, layer: PythonEnvironment) -> None:
    running = environment(layer_tree, ".")
    caches = {each.variables(layer_tree)["TILELANG_CACHE_DIR"] for each in (layer, running)}
    assert len(caches) == 2


@pytest.fixture
def bare(layer_tree: Tree, monkeypatch: pytest.MonkeyPatch) -> PythonEnvironment:
    """An interpreter that seems to lack tabulate, which stands for all that a contestant needs."""
    monkeypatch.setattr(environment_module, "NEEDED", ("tabulate",))
    return replace(environment(layer_tree, "."), name="bare", versions={})


def test_what_a_contestant_needs_is_laid_beside_an_environment_once(
    layer_tree: Tree, bare: PythonEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment_module, "installed", lambda name: "0.0.2")
    folder = support(layer_tree, bare)
    assert folder is not None
    code = "import tabulate; print(tabulate.__version__)"
    variables = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run([bare.python, "-c", code], capture_output=True, text=True, check=True, env=variables)
    assert done.stdout.split() == ["0.0.2"]
    monkeypatch.setattr(environment_module, "_pip", lambda *_: pytest.fail("it is there already"))
    assert support(layer_tree, bare) == folder
    assert support(layer_tree, replace(bare, versions={"tabulate": "0.0.1"})) is None


def test_what_cannot_be_laid_beside_is_one_line(layer_tree: Tree, bare: PythonEnvironment) -> None:
    with pytest.raises(UsageError) as caught:
        support(layer_tree, bare)
    wanted = f"tabulate=={metadata.version('tabulate')}"
    assert str(caught.value).startswith(f"bare lacks {wanted}, which its kernels' processes need; install it there: ")
    assert "\n" not in str(caught.value)


def test_releases_are_in_order_and_for_this_python() -> None:
    assert [str(each) for each in releases("tabulate")] == ["0.0.1", "0.0.2"]


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("tabulate==0.7", r"finds no tabulate==0\.7: it does not exist, .*newest that install are 0\.0\.1, 0\.0\.2"),
        ("tabulate==0.0.3", r"finds no tabulate==0\.0\.3: it needs Python <3;"),
        ("absent-package==1", "no release of absent-package==1"),
        ("tabulate>=0.0.1", "names no environment"),
        ("a b", "names no environment"),
        ("absent.whl", "there is no wheel absent.whl"),
    ],
)
def test_one_line_for_what_cannot_be(tree: Tree, named: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        environment(tree, named)
    assert "\n" not in str(caught.value)
    assert not [each for each in tree.root.glob(".cache/environments/*") if each.is_dir()]


def test_a_wheel_replaces_the_same_release(tree: Tree, tmp_path: Path) -> None:
    own = environment(tree, str(wheel(tmp_path, metadata.version("tabulate"))))
    code = "import tabulate; print(hasattr(tabulate, 'tabulate'))"
    assert subprocess.run([own.python, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_wheel_of_another_machine_is_refused(tree: Tree, tmp_path: Path) -> None:
    strange = wheel(tmp_path, "1.0").rename(tmp_path / "tabulate-1.0-cp27-cp27m-win32.whl")
    with pytest.raises(UsageError, match="not a supported wheel on this platform"):
        environment(tree, str(strange))


def test_a_path_must_answer_as_python(tree: Tree, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no bin/python"):
        environment(tree, str(tmp_path))
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho hello\n")
    script.chmod(0o755)
    with pytest.raises(UsageError, match="does not answer as Python"):
        environment(tree, str(script))


ENGINE = """#!{python}
import os, sys
words = sys.argv[1:]
if words[:2] == ["image", "inspect"]:
    sys.exit(print("sha256:" + words[-1]) if words[-1] == "known" else "Error: No such image: " + words[-1])
at = words.index("sha256:known")
assert words[0] == "run" and "--network=none" in words and "--read-only" in words and "--user=0:0" not in words
for word in words[:at]:
    if word.startswith("--env=") and not word.startswith("--env=HOME"):
        name, _, value = word.removeprefix("--env=").partition("=")
        os.environ[name] = value
os.execv({python!r}, [{python!r}, *words[at + 1 :]])
"""


def test_an_image_is_an_environment(tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docker").write_text(ENGINE.format(python=sys.executable))
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found, running = pair(tree, "image:known", ".")
    assert found.place == "sha256:known"
    assert moved(found, running) == {}
    assert found.sha256 != running.sha256
    assert found.command[-1] == "sha256:known"
    with pytest.raises(UsageError, match="are the same environment"):
        pair(tree, "image:known", "image:known")
    with pytest.raises(UsageError, match="no image 'absent' here: docker images lists"):
        environment(tree, "image:absent")
    (tmp_path / "docker").unlink()
    with pytest.raises(InfrastructureError, match="needs Docker or podman"):
        environment(tree, "image:known")


def test_an_interpreter_needs_torch_and_tilelang(tree: Tree, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    with pytest.raises(UsageError, match="has no torch; install it there"):
        environment(tree, str(bare))


def test_two_names_of_one_environment_are_refused(tree: Tree) -> None:
    with pytest.raises(UsageError, match="are the same environment"):
        pair(tree, sys.prefix, ".")


def test_two_pythons_of_one_folder_are_two_environments(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(tree: Tree, named: str, reporter: object) -> PythonEnvironment:
        return PythonEnvironment(named, Path("/usr/bin") / named, named.removeprefix("python"), {}, named)

    monkeypatch.setattr("harness.extras.versus.environment.environment", found)
    old, new = pair(tree, "python3.11", "python3.12")
    assert (old.name, new.name) == ("python3.11", "python3.12")
    with pytest.raises(UsageError, match="are the same environment"):
        pair(tree, "python3.11", "python3.11")

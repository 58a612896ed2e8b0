"""Environments: Python interpreters with named versions of TileLang and torch, built where none is there yet.

    old, new = pair(tree, "tilelang==0.1.14", ".", reporter)
    subprocess.run([old.python, script], env=old.variables(tree))

An environment is built as a layer: a virtual environment that holds the named packages, and what they need in another
version, before all packages of the running environment. So everything else is as it is pinned, and torch is not copied.
It lies under ``.cache/environments/`` and is built once.
"""

import fcntl
import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.catalog.tree import Tree
from harness.errors import InfrastructureError, UsageError, explained, last_line, printable
from harness.extras.versus import images
from harness.machine.files import put, remove
from harness.machine.hints import installed
from harness.machine.progress import Quiet, Reporter, announce
from harness.machine.repository import code

if TYPE_CHECKING:
    from packaging.version import Version

RUNNING: Final = "."
IMAGE: Final = "image:"
FOLDER: Final = Path(".cache", "environments")
ANSWER_S: Final = 60.0
NOWHERE: Final = "/"  # Python takes a TileLang of the working directory before that of the environment
QUIET: Final = Quiet()
FFI: Final = "apache-tvm-ffi"
FFI_TRIALS: Final = 6
Z3: Final = "z3"
COMPUTING: Final = ("tilelang", "torch", FFI, "torch-c-dlpack-ext", "triton", "z3-solver", "ml-dtypes", "numpy")
NEEDED: Final = ("msgspec", "nvidia-ml-py", "psutil")  # what a contestant imports besides TileLang and torch
OLDEST_PYTHON: Final = (3, 11)  # what the notebook's iterations are written in
_LAYER: Final = "tilebench-base.pth"
_STAMP: Final = "complete.json"
# Asks an interpreter of any release since 3.8 what it holds; the files of TileLang tell a changed copy from another.
_PROBE: Final = r"""
import glob, hashlib, importlib.metadata, importlib.util, json, os, platform
held, digest = {}, hashlib.sha256()
for each in importlib.metadata.distributions():
    if each.metadata["Name"]:
        held.setdefault(each.metadata["Name"], each.version)
found = {name: importlib.util.find_spec(name) is not None for name in ("torch", "tilelang")}
if found["tilelang"]:
    folder = os.path.dirname(importlib.util.find_spec("tilelang").origin)
    files = glob.glob(folder + "/**/*", recursive=True)
    files += glob.glob(os.path.dirname(folder) + "/build/**/*.so", recursive=True)
    for file in sorted(files):
        if os.path.isfile(file) and "__pycache__" not in file:
            state = os.stat(file)
            digest.update(repr((file, state.st_size, state.st_mtime_ns)).encode())
print(json.dumps([platform.python_version(), held, found, digest.hexdigest()]))
"""


@dataclass(frozen=True)
class PythonEnvironment:
    """An interpreter and what it holds.

    ``name`` is what the user called it. ``launch`` starts the interpreter of a container ``image``. ``versions`` has
    every distribution by its canonical name. ``sha256`` changes with the interpreter, with the versions of what
    compiles and computes, and with any file of TileLang.
    """

    name: str
    python: Path
    python_version: str
    versions: dict[str, str] = field(repr=False, compare=False)
    sha256: str
    image: str = ""
    launch: tuple[str, ...] = field(default=(), repr=False)

    @property
    def place(self) -> str:
        """The environment's folder, without links, or its image."""
        return self.image or str(self.python.parent.parent.resolve())

    @property
    def command(self) -> tuple[str, ...]:
        """What stands before the words of Python's own."""
        return self.launch or (str(self.python),)

    @property
    def tilelang(self) -> str:
        return self.versions.get("tilelang", "")

    @property
    def torch(self) -> str:
        return self.versions.get("torch", "")

    def variables(self, tree: Tree) -> dict[str, str]:
        """The environment variables of a child that runs here: the harness's code, and a cache of TileLang's own."""
        return {**os.environ, "PYTHONPATH": str(code(tree.root)), "TILELANG_CACHE_DIR": str(self.caches(tree))}

    def caches(self, tree: Tree) -> Path:
        """The folder of its compilers' caches."""
        return tree.root / FOLDER / "caches" / self.sha256[:16]


def pair(tree: Tree, old: str, new: str, reporter: Reporter = QUIET) -> tuple[PythonEnvironment, PythonEnvironment]:
    """Both environments, built where needed. Raises UsageError where they are one and the same."""
    first, second = environment(tree, old, reporter), environment(tree, new, reporter)
    if (first.place, first.python_version) == (second.place, second.python_version):
        raise UsageError(f"--old {old} and --new {new} are the same environment, {first.place}; name two")
    return first, second


def environment(tree: Tree, named: str, reporter: Reporter = QUIET) -> PythonEnvironment:
    """The environment that words name; one of packages is installed unless it is there, or is the running one.

    ``named`` is ``.`` for the running interpreter; an interpreter or the folder of a virtual environment; or packages,
    separated by commas: ``tilelang==0.1.14``, ``torch==2.12.0``, a version of TileLang alone, or a wheel's path; or
    ``image:`` and a container image. Raises UsageError in one line for what does not exist, does not install here, or
    lacks torch or TileLang.
    """
    if named.startswith(IMAGE):
        return _probed(named, Path(images.INTERPRETER), *images.launch(named.removeprefix(IMAGE), tree.root))
    if named == RUNNING:
        return _probed(named, Path(sys.executable))
    path = Path(named).expanduser()
    if path.exists() and path.suffix != ".whl":
        return _probed(named, _interpreter(path))
    wanted = sorted(map(_requirement, named.split(",")))
    if all(map(_satisfied, wanted)):
        return replace(_probed(RUNNING, Path(sys.executable)), name=named)
    return _probed(named, _layer(tree, wanted, reporter))


def support(tree: Tree, where: PythonEnvironment, reporter: Reporter = QUIET) -> Path | None:
    """The folder with what a contestant needs and an environment lacks, in the running versions; None if nothing.

    It is installed the first time, and changes nothing in the environment. Raises UsageError if it cannot be.
    """
    lacking = [f"{name}=={installed(name)}" for name in NEEDED if name not in where.versions]
    if not lacking:
        return None
    key = hashlib.sha256(repr((where.python_version, where.place, lacking)).encode()).hexdigest()
    folder, named = tree.root / FOLDER / f"support-{key[:16]}", ", ".join(lacking)

    def install() -> None:
        done = _into(where.python, "--no-deps", "--target", str(folder), *lacking)
        if done.returncode:
            lacks = f"{where.name} lacks {named}, which its kernels' processes need; install it there"
            raise UsageError(f"{lacks}: {_complaint(done.stdout + done.stderr)}")

    _once(tree, folder, f"{named} for {where.name}", lacking, install, reporter)
    return folder


def releases(package: str = "tilelang") -> "list[Version]":
    """Every final release of a package that installs on this Python, the oldest first. Raises UsageError."""
    from packaging.version import Version  # here: each verb would wait 30 ms for it

    done = _pip("index", "versions", package)
    listed = re.search(r"^Available versions: (.*)$", done.stdout, re.MULTILINE)
    if done.returncode or listed is None:
        raise UsageError(f"the registry lists no versions of {package}: {_complaint(done.stderr)}")
    return sorted(Version(each.strip()) for each in listed[1].split(","))


def wheel_of(release: str, folder: Path) -> Path:
    """The wheel of a release of TileLang, taken from the registry once. Raises UsageError."""
    if not (found := [*(folder / release).glob("tilelang-*.whl")]):
        done = _pip("download", "--quiet", "--no-deps", "--dest", str(folder / release), _requirement(release))
        found = [*(folder / release).glob("tilelang-*.whl")]
    if found:
        return found[0]
    raise UsageError(f"TileLang {release} cannot be taken from the registry: {_complaint(done.stderr)}")


def canonical(name: str) -> str:
    """A distribution's name as all tools compare it (packaging.python.org, "Name normalization")."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _interpreter(path: Path) -> Path:
    """The executable of a path; links stay, because a virtual environment is known by its link."""
    file = path / "bin" / "python" if path.is_dir() else path
    if not (file.is_file() and os.access(file, os.X_OK)):
        raise UsageError(f"{path} holds no bin/python that can be run; name a virtual environment or an interpreter")
    return file.absolute()


def _requirement(word: str) -> str:
    """A requirement as pip takes it: pinned, or a wheel's absolute path."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.version import InvalidVersion, Version

    word = word.strip()
    if word.endswith(".whl"):
        if not Path(word).is_file():
            raise UsageError(f"there is no wheel {word}")
        return str(Path(word).absolute())
    try:
        return f"tilelang=={Version(word)}"
    except InvalidVersion:
        pass
    try:
        asked = Requirement(word)
        pinned = [each.operator for each in asked.specifier] in (["=="], ["==="]) and not word.endswith("*")
    except InvalidRequirement:
        pinned = False
    if not pinned:
        raise UsageError(
            f"'{word}' names no environment; give . or an interpreter, a virtual environment, tilelang==0.1.14, 0.1.14"
        )
    return f"{canonical(asked.name)}{asked.specifier}"


def _satisfied(requirement: str) -> bool:
    """Whether the running environment holds it; a wheel is never there, since two builds may have one version."""
    from packaging.requirements import Requirement

    if requirement.endswith(".whl"):
        return False
    asked = Requirement(requirement)
    found = installed(asked.name)
    return found is not None and asked.specifier.contains(found, prereleases=True)


def _layer(tree: Tree, wanted: list[str], reporter: Reporter) -> Path:
    """The interpreter of the layer that holds the wanted packages; it is installed the first time."""
    named = ", ".join(Path(each).name for each in wanted)
    folder = tree.root / FOLDER / f"{re.sub('[^A-Za-z0-9.]+', '-', named)[:40]}-{_key(wanted)[:8]}"
    python = folder / "bin" / "python"
    _once(tree, folder, named, wanted, lambda: _install(folder, python, named, wanted), reporter)
    return python


def _once(
    tree: Tree, folder: Path, what: str, wanted: list[str], install: Callable[[], None], reporter: Reporter
) -> None:
    """Install into a folder, unless another command has, or does."""
    with _locked(folder):
        if not (folder / _STAMP).is_file():
            announce(reporter, f"installing {what} into {tree.short(folder)}, once")
            remove(folder)
            install()
            put(folder / _STAMP, json.dumps(wanted).encode())


def _key(wanted: list[str]) -> str:
    """Hash of what computes in the running environment, and of all that is laid over it."""
    here = _computing({canonical(each.name): each.version for each in reversed(_here())})
    wheels = [hashlib.sha256(Path(each).read_bytes()).hexdigest() for each in wanted if each.endswith(".whl")]
    return hashlib.sha256(repr((sys.version, sys.prefix, here, wanted, wheels)).encode()).hexdigest()


def _install(folder: Path, python: Path, named: str, wanted: list[str]) -> None:
    """A layer holds no pip: the running one installs into it, and leaves alone what the running environment has."""
    try:
        venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
        own = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
        below = dict.fromkeys(each for each in sys.path if each.endswith(("site-packages", "dist-packages")))
        (own / _LAYER).write_text("\n".join(below) + "\n")
    except OSError as error:
        raise InfrastructureError(f"{folder} cannot be made: {explained(error)}") from error
    wheels = [each for each in wanted if each.endswith(".whl")]
    # A wheel may have the version that the running environment has, which pip would leave.
    done = _into(python, "--no-deps", "--force-reinstall", *wheels) if wheels else None
    if done is None or done.returncode == 0:
        done = _into(python, *wanted)
    if done.returncode:
        remove(folder)
        raise UsageError(f"{named} cannot be installed here: {_complaint(done.stdout + done.stderr)}")
    _put_beside(own)
    compiles = any(re.match("tilelang|torch|apache.tvm.ffi", Path(each).name) for each in wanted)
    if compiles and (complaint := _import_error(python)) and not _mended(python, wanted):
        remove(folder)
        raise UsageError(f"{named} is installed but TileLang does not import there: {complaint}")


def _alone() -> dict[str, str]:
    """This process's variables without its own path of packages."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _put_beside(own: Path) -> None:
    """Link Z3 into a layer without one: the library of TileLang 0.1.10 and 0.1.11 looks for it in the next folder."""
    spec = find_spec(Z3)
    if spec is not None and spec.origin is not None and not (own / Z3).exists():
        (own / Z3).symlink_to(Path(spec.origin).parent, target_is_directory=True)


def _into(python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return _pip("--python", str(python), "install", *words)


def _import_error(python: Path) -> str:
    """The last line of what Python says where TileLang does not import; empty where it does."""
    command = (str(python), "-c", "import tilelang")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_alone(), cwd=NOWHERE)
    return "" if done.returncode == 0 else last_line(done.stderr)


def _mended(python: Path, wanted: list[str]) -> bool:
    """Whether an older TVM FFI makes TileLang import.

    Releases up to 0.1.11 take any TVM FFI by their metadata, and do not work with 0.1.12.
    """
    from packaging.version import Version

    if any(each.startswith(FFI) for each in wanted):
        return False
    newest = Version(metadata.version(FFI))
    older = [each for each in reversed(releases(FFI)) if each < newest][:FFI_TRIALS]
    return any(
        _into(python, "--no-deps", f"{FFI}=={each}").returncode == 0 and not _import_error(python) for each in older
    )


def _pip(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _complaint(said: str) -> str:
    """What pip's many lines come to, in one."""
    if listed := re.search(r"satisfies the requirement (\S+) \(from versions: (.*)\)", said):
        newest = ", ".join(listed[2].split(", ")[-5:])
        python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
        if listed[2] == "none":
            return f"no release of {listed[1]} is there for {python} on this machine"
        needs = re.search(rf"{re.escape(listed[1].partition('==')[2])} Requires-Python ([^;\s]+)", said)
        why = f"it needs Python {needs[1]}" if needs else "it does not exist, or has no wheel for this machine"
        return f"{python} finds no {listed[1]}: {why}; the newest that install are {newest}"
    if conflict := re.search(r"The conflict is caused by:\n((?: +.*\n)+)", said):
        return " and ".join(line.strip() for line in conflict[1].splitlines())
    errors = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR: ")]
    return (errors or said.strip().splitlines() or ["pip says nothing"])[0]


def _probed(named: str, python: Path, image: str = "", launch: tuple[str, ...] = ()) -> PythonEnvironment:
    command, told = [*(launch or [python]), "-c", _PROBE], ""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=ANSWER_S, check=False, env=_alone(), cwd=NOWHERE
        )
        told = last_line(done.stderr, "") if launch else ""
        version, held, found, files = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        why = f": {printable(told, 200)}" if told else ""
        raise UsageError(f"{named}: {python} does not answer as Python 3.8 or newer does{why}") from None
    if tuple(map(int, version.split(".")[:2])) < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        raise UsageError(f"{named}: {python} is Python {version}, and iterations need {oldest} or newer")
    for package in ("torch", "tilelang"):
        if not found[package]:
            raise UsageError(f"{named}: {python} has no {package}; install it there, or name another environment")
    there = {canonical(name): str(version) for name, version in held.items()}
    key = repr((image or str(python), version, _computing(there), files))
    return PythonEnvironment(named, python, version, there, hashlib.sha256(key.encode()).hexdigest(), image, launch)


def _computing(versions: dict[str, str]) -> list[tuple[str, str]]:
    """Those versions on which a kernel or its time depends: a new tool for lint does not build all anew."""
    return sorted(each for each in versions.items() if each[0] in COMPUTING or each[0].startswith("nvidia-"))


def _here() -> list[metadata.Distribution]:
    """Of several of one name Python takes the first; some left over from an update have no name."""
    own = [each for each in sys.path if not each.endswith("_vendor")]  # which setuptools adds where it is imported
    return [each for each in metadata.distributions(path=own) if each.name]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Two commands that want the same layer install it once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f".{folder.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

"""The yard: a scratch tree in which each foreign script stands as an iteration, so that the line judges it like any.

The iteration is ours and keeps the contract; the script that it loads is not held to it, and meets the referee all the
same. What loads it is no family, and lies where iterations may import from: in the yard's own ``kernels``.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.authoring import scaffold
from harness.catalog.tree import Iteration, Tree
from harness.extras.foreign.entries import Entry
from harness.extras.tune.scratch import scratch
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import parse_shape_key

LINKED: Final = ("harness", "baselines")
_LOADER: Final = '''"""What a foreign script would run."""

from harness.extras.foreign.find import program_of

__all__ = ["program_of"]
'''
_ITERATION: Final = '''"""The kernel of a script that was made elsewhere."""

from harness.iteration import Problem, Program
from kernels.foreign import program_of

PARENT = "{parent}"
CONFIG = dict(
    script={script!r},
    tree={tree!r},
    sha256={sha256!r},
    shape={shape!r},
    gpu={gpu!r},
)
program = program_of(**CONFIG)


def build(problem: Problem) -> Program:
    return program
'''


@contextmanager
def yard(tree: Tree) -> Iterator[Tree]:
    """A tree without iterations or records; removed afterwards."""
    with scratch(tree, "yard", LINKED) as place:
        kernels = place.root / "kernels"
        kernels.mkdir()
        (kernels / "__init__.py").write_text('"""The yard has no families."""\n')
        (kernels / "foreign.py").write_text(_LOADER)
        yield place


def write(tree: Tree, foreign: Path, gpu: Gpu, entries: Sequence[Entry]) -> dict[str, tuple[Iteration, Entry]]:
    """One iteration an entry, by the name of the model that it stands under."""
    written = {}
    for number, entry in enumerate(entries):
        model = f"script{number:05d}"
        folder = tree.folder(gpu.key) / "srcs" / entry.shape_key / model
        folder.mkdir(parents=True)
        problem = parse_shape_key(entry.shape_key)
        parent = folder / f"iter000_{scaffold.baseline_tag(problem)}.py"
        parent.write_text(scaffold.baseline(problem))
        path = folder / "iter001_foreign.py"
        path.write_text(
            _ITERATION.format(
                parent=parent.stem,
                script=str(entry.path),
                tree=str(foreign),
                sha256=entry.sha256,
                shape=entry.shape_key,
                gpu=gpu.key,
            )
        )
        written[model] = tree.parse(path), entry
    return written

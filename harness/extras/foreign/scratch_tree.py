"""A scratch tree in which each foreign script is an iteration, so that the judge's pipeline can judge it.

The iteration keeps the contract and loads the script. The script need not keep the contract, but the referee verifies
it all the same. The loader lies in the scratch tree's own ``kernels``, since iterations may import from there.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.catalog.tree import Iteration, Tree
from harness.extras.foreign.scripts import ForeignScript
from harness.extras.scratch_tree import linked_tree, parent_of, write_iteration
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import parse_shape_key

_LOADER: Final = '''"""The kernel that a foreign script would run."""

from harness.extras.foreign.find import {} as program_of

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
def foreign_tree(tree: Tree, finder: str = "program_of") -> Iterator[Tree]:
    """A tree without iterations and records; its kernels are the loader alone. It is removed afterwards."""
    with linked_tree(tree, "foreign", without="kernels") as scratch:
        kernels = scratch.root / "kernels"
        kernels.mkdir()
        (kernels / "foreign.py").write_text(_LOADER.format(finder))
        yield scratch


def write(
    scratch: Tree, root: Path, gpu: Gpu, scripts: Sequence[ForeignScript]
) -> dict[str, tuple[Iteration, ForeignScript]]:
    """One iteration for each script of the tree at ``root``, by the name of the model that it stands under."""
    written = {}
    for number, script in enumerate(scripts):
        model, problem = f"script{number:05d}", parse_shape_key(script.shape_key)
        given = {"script": str(script.path), "tree": str(root), "sha256": script.sha256, "gpu": gpu.key}
        source = _ITERATION.format(parent=parent_of(problem), shape=script.shape_key, **given)
        written[model] = write_iteration(scratch, problem, gpu, model, "foreign", source), script
    return written

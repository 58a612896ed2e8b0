"""The rehearsal: a repository's own operators meet small tensors in a child, before anything else runs."""

import ast
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.catalog.tree import Tree
from harness.errors import UsageError, described, located, unreadable
from harness.judge.child.body import child_body
from harness.judge.child.brief import Brief
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import BASELINES, baseline_modules
from harness.judge.facts.problem import Problem, parse_shape_key
from harness.judge.messages import Seated, Trouble, send
from harness.judge.processes import UNLIMITED_BYTES, Ended, Worker
from harness.machine.repository import OWN
from harness.operators import OPERATORS

if TYPE_CHECKING:
    import torch

SMALL: Final = 1 << 16  # elements of all tensors
LEAST: Final = 8  # a dimension is not halved further
DEADLINE_S: Final = 300.0


def rehearse(tree: Tree, gpu: Gpu, problem: Problem) -> None:
    """Raise UsageError where a problem is unfit."""
    for told in unfit(tree, gpu, [problem]).values():
        raise UsageError(told)


def unfit(tree: Tree, gpu: Gpu, problems: Iterable[Problem]) -> dict[Problem, str]:
    """What is wrong, and where, with each problem that does not fit: a size, a fill, the reference or the baseline.

    The forkserver must have begun. Only one problem of an operator meets tensors, and what it says holds for all.
    """
    own = {each: operator_file(tree.root, each) for each in problems if operator_file(tree.root, each).is_file()}
    wrong = {problem: told for problem, path in own.items() if (told := _wrong_sizes(problem, path))}
    for problem in {each.operator: each for each in own if each not in wrong}.values():
        if told := _rehearsed(tree, gpu, problem, own[problem]):
            wrong |= {each: told for each in own if each.operator == problem.operator}
    return wrong


def _rehearsed(tree: Tree, gpu: Gpu, problem: Problem, path: Path) -> str | None:
    worker = Worker("rehearsal", _body, (Brief(tree.root, problem, gpu, None),), UNLIMITED_BYTES)
    try:
        answer = worker.hear(Seated | Trouble, DEADLINE_S)
    except Ended as ended:
        return f"{path}: {ended.reason}"
    finally:
        worker.end()
    return answer.reason if isinstance(answer, Trouble) else None


def operator_file(root: Path, problem: Problem) -> Path:
    """Where a repository's own operator lies."""
    return root / OWN["harness.operators"] / f"{problem.operator}.py"


def _wrong_sizes(problem: Problem, path: Path) -> str | None:
    try:
        _ = (problem.bytes, problem.flops, problem.scales)
        wrong = [name for number, name in enumerate(problem.output_names) if not problem.scale_of(number) > 0]
        wrong += [name for number, name in enumerate(problem.output_names) if problem.terms_of(number) < 1]
    except Exception as error:  # a size is a person's expression
        return f"{path}: a size of {problem} cannot be computed: {described(error)}"
    return f"{path}: scale and terms of output '{wrong[0]}' are not above 0 in {problem}" if wrong else None


def smaller(problem: Problem) -> Problem:
    """The same with halved dimensions, the largest first, as far as the operator takes them."""
    while _elements(problem) > SMALL:
        if (halved := next(_halved(problem), None)) is None:
            break
        problem = halved
    return problem


def _elements(problem: Problem) -> int:
    return sum(math.prod(shape) for shape, _ in problem.tensors)


def _halved(problem: Problem) -> Iterator[Problem]:
    """The problem with half of one dimension, of those that the operator takes."""
    for size, axis in sorted(((size, axis) for axis, size in enumerate(problem.dims)), reverse=True):
        dims = (*problem.dims[:axis], size // 2, *problem.dims[axis + 1 :])
        if size >= 2 * LEAST:
            with suppress(UsageError):
                yield parse_shape_key(replace(problem, dims=dims).shape_key)


def _body(brief: Brief, parent: Connection) -> None:
    """Of the child: a complaint counts where every try gives one."""
    import torch

    with child_body(brief, parent, lambda error: Trouble(described(error))):
        device = "cuda" if not brief.gpu.is_cpu and torch.cuda.is_available() else "cpu"
        for tried in tries(brief.problem, device):
            wrong = complaint(brief.root, brief.gpu, *tried)
            if wrong is None:
                break
        send(parent, Trouble(wrong) if wrong else Seated(""))


def tries(problem: Problem, device: str) -> Iterator[tuple[Problem, str]]:
    """The problem in small on the CPU, then as it is on the device; a GPU takes what cannot be small at once."""
    small = smaller(problem)
    if device == "cpu" or _elements(small) <= SMALL:
        yield small, "cpu"
    yield problem, device


def complaint(root: Path, gpu: Gpu, problem: Problem, device: str = "cpu") -> str | None:
    """What is wrong with an operator's fills, reference or baseline; None if they fit."""
    import torch

    from harness.judge.child import trials

    path, operator = operator_file(root, problem), OPERATORS[problem.operator]
    baseline, *more = baseline_modules(root, problem.operator) or (None,)
    if more:
        return f"{more[0]}: {baseline} has a function '{operator.name}' too; keep one of the two"
    dice, inputs = torch.Generator(device).manual_seed(0), list[torch.Tensor]()
    for position, (name, shape) in enumerate(zip(operator.inputs, problem.inputs, strict=True)):
        try:
            inputs.append(trials.random_pool(problem, position, math.prod(shape), dice).view(shape))
        except Exception as error:
            return f"{path}: input '{name}' of {problem} cannot be filled: {described(error)}"
    try:
        trials.references(problem, inputs)
    except Exception as error:
        return f"{located(path, error, _line(operator.reference))}: in {problem}, {described(error)}"
    if baseline is None:
        return _no_baseline(root / BASELINES, problem.operator) if gpu.is_cpu else None
    return _unfit_baseline(baseline, gpu, problem, inputs)


def _unfit_baseline(baseline: Path, gpu: Gpu, problem: Problem, inputs: list["torch.Tensor"]) -> str | None:
    """What is wrong with an operator's baseline: for a GPU what shows without a call."""
    import torch

    from baselines import library
    from harness.judge.child import trials
    from harness.judge.limits import complaint as wrong_in

    operator = OPERATORS[problem.operator]
    try:
        call = library(problem)
    except Exception as error:  # a GPU's library may be missing here
        return f"{located(baseline, error)}: in {problem}, {described(error)}" if gpu.is_cpu else None
    where = f"{baseline}:{_line(getattr(call.call, 'func', call.call)) or 1}"  # a partial where it has keywords
    if call.returns and (named := next((name for name, each in operator.outputs.items() if each.inplace), None)):
        place = operator.outputs[named].inplace
        return f"{where}: '{named}' is written in place of '{place}'; name the baseline's parameter '{named}'"
    if not gpu.is_cpu:
        return None
    own = (torch.empty(shape, dtype=getattr(torch, dtype)) for shape, dtype in problem.tensors[len(inputs) :])
    tensors = [*(each.clone() for each in inputs), *own]
    outputs = [tensors[place] for place in problem.places]
    try:
        made = call.alone(*call.prepared(*tensors))
    except Exception as error:
        return f"{located(baseline, error)}: in {problem}, {described(error)}"
    if call.returns:
        found = [made] if isinstance(made, torch.Tensor) else list(made or ())
        told, wanted = ([_described(each) for each in those] for those in (found, outputs))
        if told != wanted:
            return f"{where}: in {problem} the baseline returns {told}, and the outputs are {wanted}"
        outputs = found
    compared = trials.judged("random", problem, inputs, outputs)
    if wrong := next(filter(None, map(wrong_in, compared)), None):
        reference = f"{operator.name}.py's reference"
        return f"{where}: in {problem} the baseline is not what {reference} gives: {wrong}; mend either"
    return None


def _described(tensor: "torch.Tensor") -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _no_baseline(folder: Path, operator: str) -> str:
    """Why no module of a repository has an operator's baseline."""
    for path in sorted(folder.glob("*.py")):
        try:
            ast.parse(path.read_text(encoding="utf-8"), str(path))
        except (SyntaxError, ValueError) as error:
            return unreadable(path, error)
    return f"{folder}: no module has a function '{operator}'; add one, such as {folder.name}/torch_{operator}.py"


def _line(function: Callable[..., Any]) -> int:
    """Where a function begins; 0 where that is not known."""
    code = getattr(function, "__code__", None)
    return code.co_firstlineno if code else 0

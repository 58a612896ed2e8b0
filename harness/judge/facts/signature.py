"""Whether a compiled kernel's parameters match the problem's tensors."""

from collections.abc import Sequence

from harness.judge.facts.problem import SYMBOLIC, Problem

Signature = tuple[tuple[tuple[int, ...], str], ...]  # (shape, dtype) of the inputs and, last, the outputs


def mismatch(signature: Signature, problem: Problem, dynamic: Sequence[str] = ()) -> str | None:
    """The first difference between a kernel's parameters and the problem's tensors; None if there is none.

    A size that depends on a ``dynamic`` dimension must be symbolic, and no other may be.
    """
    if unknown := set(dynamic) - set(problem.dim_names):
        known = ", ".join(problem.dim_names)
        return f"the kernel declares dynamic dimensions {', '.join(sorted(unknown))}; {problem} has {known}"
    names = (*problem.input_names, *problem.output_names)
    if len(signature) != len(problem.tensors):
        return f"the kernel takes {len(signature)} tensors, {problem} has {len(problem.tensors)}: {', '.join(names)}"
    wanted = problem.symbolic_tensors(dynamic)
    for position, (have, want) in enumerate(zip(signature, wanted, strict=True)):
        if have != want:
            declare = SYMBOLIC in have[0] and SYMBOLIC not in want[0]
            told = '; name symbolic dimensions in Program(…, dynamic=("M",))' if declare else ""
            place = f"parameter {position + 1} of the kernel, {names[position]},"
            return f"{place} is {_words(have)}, {problem} has {_words(want)}{told}"
    return None


def _words(tensor: tuple[tuple[int, ...], str]) -> str:
    shape, dtype = tensor
    return f"{dtype}[{','.join('symbolic' if size == SYMBOLIC else str(size) for size in shape)}]"

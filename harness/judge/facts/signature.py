"""Whether a compiled kernel's parameters match the problem's tensors."""

from harness.judge.facts.problem import Problem

Signature = tuple[tuple[tuple[int, ...], str], ...]  # (shape, dtype) of the inputs and, last, the outputs


def mismatch(signature: Signature, problem: Problem) -> str | None:
    """The first difference between a kernel's parameters and the problem's tensors; None if there is none."""
    if len(signature) != len(problem.tensors):
        return f"the kernel takes {len(signature)} tensors, {problem} has {len(problem.tensors)}"
    for position, (have, want) in enumerate(zip(signature, problem.tensors, strict=True)):
        if have != want:
            return f"parameter {position} of the kernel is {_words(have)}, {problem} has {_words(want)}"
    return None


def _words(tensor: tuple[tuple[int, ...], str]) -> str:
    shape, dtype = tensor
    return f"{dtype}[{','.join(map(str, shape))}]"

"""The problem that a script solves, guessed from the tensors that it gives the library or its kernel."""

import ast
from collections.abc import Iterable, Iterator
from typing import Final

from harness.errors import UsageError
from harness.extras.foreign.reading import ForeignTensor, Reading, name_of, returned
from harness.judge.breach import root_name
from harness.judge.facts.problem import Problem, parse_shape_key
from harness.judge.vocabulary import TORCH_NAMES

_PRODUCTS: Final = frozenset({"matmul", "mm", "linear"})
_ATTENTION: Final = "scaled_dot_product_attention"
_NARROW: Final = "float8_e4m3fn"  # its output has another dtype, here the one that trees most often have


def guessed(reading: Reading) -> Problem | None:
    """The first problem of ours that a library call of the script computes; None where there is none.

    KernelBench's ``Model`` says it alone: what its ``forward`` returns is the reference.
    """
    model = next((scope for scope in reading.scopes if scope.owner == "Model" and scope.name == "forward"), None)
    for scope in reading.scopes if model is None else (model,):
        nodes = scope.nodes if model is None else returned(model)
        for operator, operands in _calls(nodes):
            tensors = [reading.tensor(each, scope) for each in operands]
            problem = _problem(operator, [each for each in tensors if each is not None and each.shape is not None])
            if problem is not None:
                return problem
    return None


def _calls(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, list[ast.expr]]]:
    """The library's calls and operators among some nodes, each with its operands."""
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield "matmul", [node.left, node.right]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            yield "add", [node.left, node.right]
        elif isinstance(node, ast.Call):
            name = name_of(node.func)
            if isinstance(node.func, ast.Attribute) and root_name(node.func) not in TORCH_NAMES:
                if name in ("matmul", "mm") and node.args:
                    yield "matmul", [node.func.value, node.args[0]]
            elif name == _ATTENTION:
                causal = next((each.value for each in node.keywords if each.arg == "is_causal"), None)
                is_causal = isinstance(causal, ast.Constant) and causal.value
                yield "causalattention" if is_causal else "attention", node.args[:3]
            elif name in _PRODUCTS:
                yield "linear" if name == "linear" else "matmul", node.args[:2]
            elif name == "add":
                yield "add", node.args[:2]


def _problem(operator: str, tensors: list[ForeignTensor]) -> Problem | None:
    shapes = [each.shape or () for each in tensors]
    dims: tuple[int, ...] | None = None
    if operator in ("matmul", "linear") and [len(shape) for shape in shapes] == [2, 2]:
        (m, k), (first, second) = shapes
        if operator == "matmul" and tensors[1].transposed:
            operator, first, second = "linear", second, first
        n, inner = (second, first) if operator == "matmul" else (first, second)
        dims = (m, n, k) if inner == k and not tensors[0].transposed else None
    elif operator == "add" and len(shapes) == 2 and shapes[0] == shapes[1] and len(shapes[0]) == 1:
        dims = shapes[0]
    elif operator.endswith("attention") and [len(shape) for shape in shapes] == [4, 4, 4]:
        (b, h, s, d), (_, g, tokens, _), (*_, w) = shapes
        dims = (b, h, g, s, d, w) if tokens == s else None
    dtype = tensors[0].dtype if tensors else None
    if dims is None or dtype is None or any(each.dtype != dtype for each in tensors):
        return None
    try:
        problem = Problem(operator, dtype, "float32", "bfloat16" if dtype == _NARROW else dtype, dims)
        return parse_shape_key(problem.shape_key)
    except (UsageError, StopIteration):
        return None

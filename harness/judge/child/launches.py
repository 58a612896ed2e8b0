"""What a launch consists of, kernels and torch operators, and whether all of it is the iteration's own."""

import gc
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import tilelang
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.judge.child.cuda_calls import checked
from harness.judge.child.order import Edge
from harness.judge.facts.compilation import kernel_names
from harness.judge.facts.problem import Problem
from harness.judge.messages import Inspected

Call = Callable[[], None]
Launch = tuple[int, ...]  # the axes of the grid and of the block; empty of what is no kernel

# To make, fill, copy or convert a tensor is no computation; nor is a view, which torch marks as such.
PLAIN_OPERATORS: Final = frozenset(
    {
        "clone", "copy_", "empty", "empty_like", "empty_strided", "fill_", "full", "new_empty", "new_empty_strided",
        "new_zeros", "record_stream", "zero_", "zeros", "zeros_like", "_to_copy", "_unsafe_view",
    }
)  # fmt: skip
COPIES: Final = frozenset({"clone", "copy_", "_to_copy"})
PLAIN_KERNELS: Final = re.compile(r"memcpy|memset|at6native.*(FillFunctor|copy_kernel)")

# Bound before an iteration can replace them.
_synchronize: Final = torch.cuda.synchronize
_Graph: Final = torch.cuda.CUDAGraph
_capturing: Final = torch.cuda.graph


class _Operators(TorchDispatchMode):
    """Notes the torch operators that are called, without views."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not func.is_view:
            self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def inspect(calls: Sequence[Call], *, cpu: bool) -> Inspected:
    """Watch the first two calls. Raises the error of a call that a CUDA graph cannot capture."""
    noted = _Operators()
    with noted:
        calls[0]()
    operators = tuple(sorted(noted.names))
    if cpu:
        return Inspected((), 0, (), operators)
    _synchronize()
    return Inspected(_nodes_of(calls[:1]), len(_nodes_of(calls[:2])), _compiled(), operators)


def warm_up() -> None:
    """Import what the first watched call needs, most of a second, before processes fork."""
    with _Operators():
        torch.empty(1)


def complaint_of_launches(found: Inspected, problem: Problem, *, cpu: bool) -> str | None:
    """The complaint about a launch that an iteration must not make; None if there is none."""
    plain = PLAIN_OPERATORS if problem.flops else PLAIN_OPERATORS - COPIES  # where a copy is all that is asked for
    called = [name for name in found.operators if name not in plain]
    if called:
        return f"a launch calls torch's {', '.join(called[:4])}; an iteration computes with its own kernel"
    if cpu:
        return None
    foreign = [name for name in found.kernels if name not in found.compiled and not PLAIN_KERNELS.search(name)]
    if foreign:
        foreign.sort(key=lambda name: name.startswith("CU_GRAPH_NODE"))
        return f"a launch runs '{foreign[0][:120]}', which TileLang did not compile here"
    if not any(name in found.compiled for name in found.kernels):
        return "a launch runs no kernel that TileLang compiled, at least not on the stream that it is given"
    if found.of_two != 2 * len(found.kernels):
        return (
            f"one call runs {len(found.kernels)} kernels and two run {found.of_two}; each call must do its own work, "
            "no more and no less"
        )
    return None


def _compiled() -> tuple[str, ...]:
    """Names of all kernels that TileLang compiled in this process."""
    names: set[str] = set()
    for each in gc.get_objects():
        if type(each) is tilelang.JITKernel:
            names.update(kernel_names(each.get_kernel_source()))
    return tuple(sorted(names))


def captured(calls: Sequence[Call], stream: torch.cuda.Stream | None = None) -> torch.cuda.CUDAGraph:
    """A CUDA graph of these calls, not yet instantiated."""
    graph: torch.cuda.CUDAGraph = _Graph(keep_graph=True)
    with _capturing(graph, stream=stream):
        for call in calls:
            call()
    return graph


def _nodes_of(calls: Sequence[Call]) -> tuple[str, ...]:
    """The nodes of a CUDA graph of these calls: a kernel by its name, any other node by its kind."""
    graph = captured(calls)
    names = tuple(name for name, _ in _nodes(graph.raw_cuda_graph()))
    graph.reset()
    return names


def described_nodes(graph: Any) -> list[str]:
    """The nodes of a CUDA graph: a kernel by its name and its launch, any other node by its kind."""
    return [f"{name} {launch}" for name, launch in _nodes(graph)]


def _nodes(graph: Any) -> list[tuple[str, Launch]]:
    from cuda.bindings import driver

    _, count = checked(driver.cuGraphGetNodes(graph, 0))
    nodes, _ = checked(driver.cuGraphGetNodes(graph, count))
    found: list[tuple[str, Launch]] = []
    kinds = driver.CUgraphNodeType
    for node in nodes[:count]:
        (kind,) = checked(driver.cuGraphNodeGetType(node))
        if kind == kinds.CU_GRAPH_NODE_TYPE_KERNEL:
            (parameters,) = checked(driver.cuGraphKernelNodeGetParams(node))
            (name,) = (
                checked(driver.cuFuncGetName(parameters.func))
                if int(parameters.func)
                else checked(driver.cuKernelGetName(parameters.kern))
            )
            sizes = (getattr(parameters, f"{of}Dim{axis}") for of in ("grid", "block") for axis in "XYZ")
            found.append((name.decode() if isinstance(name, bytes) else str(name), tuple(map(int, sizes))))
        elif kind == kinds.CU_GRAPH_NODE_TYPE_GRAPH:
            found += _nodes(checked(driver.cuGraphChildGraphNodeGetGraph(node))[0])
        elif kind == kinds.CU_GRAPH_NODE_TYPE_MEMCPY:
            found.append(("memcpy", ()))
        elif kind == kinds.CU_GRAPH_NODE_TYPE_MEMSET:
            found.append(("memset", ()))
        elif kind != kinds.CU_GRAPH_NODE_TYPE_EMPTY:
            found.append((kind.name, ()))
    return found


def graph_order(graph: Any) -> tuple[int, list[Edge]]:
    """The number of nodes of a captured CUDA graph, and its edges."""
    from cuda.bindings import driver

    get_edges = getattr(driver, "cuGraphGetEdges_v2", driver.cuGraphGetEdges)  # the first knows dependent launches
    _, count = checked(driver.cuGraphGetNodes(graph, 0))
    nodes, _ = checked(driver.cuGraphGetNodes(graph, count))
    number = {int(node): place for place, node in enumerate(nodes[:count])}
    *_, count = checked(get_edges(graph, 0))
    earlier, later, *_ = checked(get_edges(graph, count))
    return len(number), [(number[int(b)], number[int(a)]) for a, b in zip(earlier[:count], later[:count], strict=True)]

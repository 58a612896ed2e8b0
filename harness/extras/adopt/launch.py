"""A launch on a tape: the kernel, and what its parameters are read and written for."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from tilelang import tvm

from harness.errors import described
from harness.extras.foreign.calls import flags_of
from harness.extras.foreign.find import FoundKernel
from harness.judge.child.capture import tensor_ir
from harness.judge.facts.program import Program
from harness.judge.facts.signature import Signature

MARKS: Final = "TL_IKET_EVENT"  # calls that mark a kernel for TileLang's profiler, which defines them
DRAWS: Final = "tl.layout_visualization"  # pass configs that draw a kernel and do not change it
TIR: Final = tensor_ir()
DIALECT: Final = TIR.__name__.rpartition(".")[2]
READ: Final = 1
WRITE: Final = 2
USE_AT: Final = {"region": 1, "access_ptr": 2}  # calls that name an element first, and where they say its use


class TapedLaunch:
    """A kernel as a call of a tape has it; ``outputs`` are the parameters that it makes itself."""

    def __init__(self, prim_func: Any, outputs: Sequence[int], pass_configs: Any, compile_flags: Any) -> None:
        self.prim_func = _unmarked(prim_func)
        self.outputs = sorted(each % len(prim_func.params) for each in outputs)
        named = {str(getattr(name, "value", name)): each for name, each in dict(pass_configs or {}).items()}
        self.pass_configs = {name: each for name, each in named.items() if not name.startswith(DRAWS)}
        self.compile_flags = flags_of(compile_flags)

    def __str__(self) -> str:
        return str(self.prim_func.attrs["global_symbol"]) if self.prim_func.attrs else "kernel"

    @property
    def inputs(self) -> list[int]:
        """The parameters that the caller gives."""
        return [each for each in range(len(self.prim_func.params)) if each not in self.outputs]

    @property
    def every(self) -> range:
        return range(len(self.prim_func.params))

    @property
    def signature(self) -> Signature:
        """The shape and dtype of each parameter."""
        return FoundKernel(str(self), Program(self.prim_func)).signature

    def in_order(self, given: Sequence[Any], made: Sequence[Any]) -> list[Any]:
        """Arguments and results in the order of the parameters."""
        found = {**dict(zip(self.inputs, given, strict=True)), **dict(zip(self.outputs, made, strict=True))}
        return [found[each] for each in range(len(self.prim_func.params))]

    @cached_property
    def uses(self) -> dict[int, int]:
        """What each parameter is used for: READ, WRITE or both, by its position."""
        buffers = self.prim_func.buffer_map
        places = {buffers[each].data: place for place, each in enumerate(self.prim_func.params) if each in buffers}
        found, plain = defaultdict[int, int](int), Counter[int]()  # loads, less those that only tell an address

        def note(place: int | None, use: int, loads: int = 0) -> None:
            if place is not None:
                found[place] |= use
                plain[place] += loads

        def place_of(node: Any) -> int | None:
            return places.get(getattr(getattr(node, "buffer", None), "data", None))

        def visit(node: Any) -> None:
            name = _name(node)
            if isinstance(node, TIR.BufferStore | TIR.BufferLoad):
                stores = isinstance(node, TIR.BufferStore)
                note(place_of(node), WRITE if stores else 0, not stores)
            elif name in USE_AT:
                note(place_of(node.args[0]), int(node.args[USE_AT[name]]), -1)
            elif "atomic" in name:  # what it writes it also reads
                used = (each for each in node.args if _name(each) in USE_AT)
                written = (each for each in used if int(each.args[USE_AT[_name(each)]]) & WRITE)
                for each in written:
                    note(place_of(each.args[0]), READ | WRITE)
            elif name == "address_of":
                note(place_of(node.args[0]), READ | WRITE, -1)
            elif name == "tvm_access_ptr":
                note(places.get(node.args[1]), int(node.args[4]))

        TIR.stmt_functor.post_order_visit(self.prim_func.body, visit)
        for place, count in plain.items():
            found[place] |= READ if count > 0 else 0
        return dict(found)

    def saved(self, order: Sequence[int]) -> str:
        """The kernel as JSON, its parameters in another order, all of them given."""
        kernel, function = self.prim_func, TIR.PrimFunc
        parameters = [kernel.params[each] for each in order]
        made = function(parameters, kernel.body, kernel.ret_type, kernel.buffer_map, kernel.attrs)
        try:
            return str(tvm.ir.save_json(made.without_attr("tilelang_out_idx")))
        except Exception as error:  # of TVM's own many
            raise ValueError(f"its kernel cannot be written down: {described(error)}") from None


def _name(node: Any) -> str:
    """Of a call its operation, without its dialect."""
    return str(getattr(getattr(node, "op", None), "name", "")).rpartition(".")[2]


def _unmarked(kernel: Any) -> Any:
    """The kernel without a profiler's marks."""

    def bare(node: Any) -> Any:
        name = next(iter(getattr(node.value, "args", ())), None)
        return TIR.Evaluate(0) if str(getattr(name, "value", "")).startswith(MARKS) else node

    return kernel.with_body(TIR.stmt_functor.ir_transform(kernel.body, None, bare, [f"{DIALECT}.Evaluate"]))

"""A launch on a tape: the kernel, and what its parameters are read and written for."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from tilelang import tvm

from harness.errors import described
from harness.extras.foreign.calls import flags_of
from harness.extras.foreign.find import FoundKernel
from harness.judge.facts.program import Program
from harness.judge.facts.signature import Signature

MARKS: Final = "TL_IKET_EVENT"  # calls that mark a kernel for TileLang's profiler, which defines them
DRAWS: Final = "tl.layout_visualization"  # pass configs that draw a kernel and do not change it
READ: Final = 1
WRITE: Final = 2


class TapedLaunch:
    """A kernel as a call of a tape has it; ``outputs`` are the parameters that it makes itself."""

    tags: tuple[object, ...] = ()

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
        buffers = {self.prim_func.buffer_map[each].data: position for position, each in self._buffers()}
        found: dict[int, int] = {}
        plain: dict[int, int] = {}  # loads, less those that only tell an address

        def note(node: Any, use: int) -> None:
            where = (
                buffers.get(node.buffer.data) if isinstance(node, tvm.tirx.BufferLoad | tvm.tirx.BufferStore) else None
            )
            if where is not None:
                found[where] = found.get(where, 0) | use
                plain[where] = plain.get(where, 0) - isinstance(node, tvm.tirx.BufferLoad)

        def added(node: Any) -> None:
            """What an atomic operation writes it also reads."""
            if isinstance(node, tvm.tirx.Call) and str(node.op.name).endswith(("region", "access_ptr")):
                where = buffers.get(getattr(getattr(node.args[0], "buffer", None), "data", None))
                if where is not None and int(node.args[1 if str(node.op.name).endswith("region") else 2]) & WRITE:
                    found[where] = READ | WRITE

        def visit(node: Any) -> None:
            if isinstance(node, tvm.tirx.BufferStore):
                note(node, WRITE)
            elif isinstance(node, tvm.tirx.BufferLoad) and node.buffer.data in buffers:
                plain[buffers[node.buffer.data]] = plain.get(buffers[node.buffer.data], 0) + 1
            elif isinstance(node, tvm.tirx.Call):
                name = str(getattr(node.op, "name", "")).rpartition(".")[2]
                if name in ("region", "access_ptr"):
                    note(node.args[0], int(node.args[1 if name == "region" else 2]))
                elif "atomic" in name:
                    for each in node.args:
                        added(each)
                elif name == "address_of":
                    note(node.args[0], READ | WRITE)
                elif name == "tvm_access_ptr" and node.args[1] in buffers:
                    where = buffers[node.args[1]]
                    found[where] = found.get(where, 0) | int(node.args[4])

        tvm.tirx.stmt_functor.post_order_visit(self.prim_func.body, visit)
        for where, count in plain.items():
            found[where] = found.get(where, 0) | (READ if count > 0 else 0)
        return found

    def _buffers(self) -> list[tuple[int, Any]]:
        parameters = enumerate(self.prim_func.params)
        return [(position, each) for position, each in parameters if each in self.prim_func.buffer_map]

    def saved(self, order: Sequence[int]) -> str:
        """The kernel as JSON, its parameters in another order, all of them given."""
        kernel, function = self.prim_func, tvm.tirx.PrimFunc
        parameters = [kernel.params[each] for each in order]
        made = function(parameters, kernel.body, kernel.ret_type, kernel.buffer_map, kernel.attrs)
        try:
            return str(tvm.ir.save_json(made.without_attr("tilelang_out_idx")))
        except Exception as error:  # of TVM's own many
            raise ValueError(f"its kernel cannot be written down: {described(error)}") from None


def _unmarked(kernel: Any) -> Any:
    """The kernel without a profiler's marks."""

    def bare(node: Any) -> Any:
        name = next(iter(getattr(node.value, "args", ())), None)
        return tvm.tirx.Evaluate(0) if str(getattr(name, "value", "")).startswith(MARKS) else node

    return kernel.with_body(tvm.tirx.stmt_functor.ir_transform(kernel.body, None, bare, ["tirx.Evaluate"]))

"""The geometry of a launch is known where a kernel's grid depends on symbolic sizes."""

from types import SimpleNamespace

import pytest

from harness.judge.child.capture import compilation, tensor_ir


def kernel(grid: object) -> SimpleNamespace:
    """A compiled kernel as TileLang describes it, with this many blocks in x."""
    extents = {"blockIdx.x": grid, "blockIdx.y": tensor_ir().const(4), "threadIdx.x": tensor_ir().const(128)}
    function = SimpleNamespace(attrs={"global_symbol": "main_kernel", "thread_extent": extents})
    artifact = SimpleNamespace(device_mod=SimpleNamespace(functions={"main_kernel": function}))
    return SimpleNamespace(artifact=artifact)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(("rows", "blocks"), [(1, 1), (128, 1), (1000, 8)])
def test_a_symbolic_grid_has_the_blocks_of_the_problem(dtype: str, rows: int, blocks: int) -> None:
    symbol = tensor_ir().Var("M", dtype)
    found = compilation(kernel((symbol + 127) // 128), "text", [], {"M": rows, "8192": 8192})
    assert found is not None
    (launch,) = found.launches
    assert (launch.grid, launch.block) == ((blocks, 4, 1), (128, 1, 1))


def test_a_grid_of_an_unknown_size_is_left_out() -> None:
    found = compilation(kernel(tensor_ir().Var("batch", "int32")), "text", [], {"M": 8})
    assert found is not None and found.launches == ()

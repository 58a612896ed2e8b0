"""Cases of trees made elsewhere: which functions they are, and how one runs on a machine without a GPU."""

import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from harness.errors import UsageError
from harness.extras.versus import stand_in
from harness.extras.versus.cases import cases


@pytest.fixture
def foreign_tree(tmp_path: Path) -> Path:
    files = {
        "pyproject.toml": "",
        "examples/gemm/regression_gemm.py": "def regression_a(): ...\ndef helper(): ...\ndef regression_b(): ...\n",
        "benchmarks/ops/bench_bmm.py": "def test_bmm(): ...\nclass Workload:\n    def test_no(self): ...\n",
        "examples/gemm/example_gemm.py": "def regression_no(): ...\n",
        "examples/old/regression_old.py": "print 'Python 2'\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_cases_are_the_functions_that_their_own_runners_call(foreign_tree: Path) -> None:
    found, unreadable = cases(foreign_tree)
    assert [str(each) for each in found] == [
        "benchmarks/ops/bench_bmm/test_bmm",
        "examples/gemm/regression_gemm/regression_a",
        "examples/gemm/regression_gemm/regression_b",
    ]
    (line,) = unreadable
    assert "regression_old.py cannot be read" in line
    below, _ = cases(foreign_tree / "benchmarks")
    assert [each.root for each in below] == [foreign_tree.resolve()]


def test_a_tree_without_cases_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no regression_\*\.py with a function regression_\*"):
        cases(tmp_path)


def test_a_test_gets_its_first_values_that_are_not_skipped() -> None:
    def many(shape: object, dtype: object, tune: object) -> None: ...

    skipped = pytest.param((8,), "int8", marks=pytest.mark.skip(reason="slow"))
    many = pytest.mark.parametrize(("shape", "dtype"), [skipped, ((4, 2), "half")])(many)
    assert stand_in.first_values(pytest.mark.parametrize("tune", [True, False])(many)) == {
        "shape": (4, 2),
        "dtype": "half",
        "tune": True,
    }


def test_tensors_for_a_gpu_lie_on_the_cpu() -> None:
    with stand_in.OnCpu():
        made = torch.ones(2, 3, device="cuda:1", pin_memory=True).cuda()
        told = made.is_cuda, made.device.type
    assert told == (True, "cuda")
    assert (made.device.type, made.sum().item()) == ("cpu", 6)


def test_a_launch_gives_outputs_in_the_sizes_of_the_inputs() -> None:
    names = [("n", 4), ("n", 2), (8,)]
    parameters = [SimpleNamespace(shape=shape, dtype=torch.float16) for shape in names]
    kernel = SimpleNamespace(params=parameters, out_idx=[1, -1])
    first, second = stand_in.launched(kernel, torch.ones(5, 4))
    assert (first.shape, first.dtype, second.shape) == ((5, 2), torch.float16, (8,))
    parameters = [SimpleNamespace(shape=shape, dtype=torch.int8) for shape in ((8, 4), (4, 4))]
    packed = SimpleNamespace(params=parameters, out_idx=-1)
    assert stand_in.launched(packed, torch.ones(8, 2)).shape == (4, 4)  # of two words in one it has half as many
    assert stand_in.launched(kernel, *(torch.ones(1),) * 3) is None  # the caller gives the outputs


def test_a_function_that_tunes_itself_gets_the_callers_configuration_or_the_first() -> None:
    asked = []

    class Jit:
        signature = inspect.signature(lambda m, block, stages: None)

        def __call__(self, *words: object, **more: object) -> object:
            asked.append((words, more))
            return SimpleNamespace(prim_func=None)

    tuner = SimpleNamespace(jit_impl=Jit(), configs=[{"block": 64, "stages": 2, "pass_configs": {}}, {"block": 32}])
    assert stand_in.untuned(tuner, 7).config == {"block": 64, "stages": 2}
    assert stand_in.untuned(tuner, 7, 16, stages=3).config == {"block": 16, "stages": 3}
    assert asked == [((7,), {"block": 64, "stages": 2}), ((7, 16), {"stages": 3})]

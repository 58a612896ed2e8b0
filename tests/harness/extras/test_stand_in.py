"""A GPU's stand-in: where tensors lie, what a launch gives, and which configuration stands for a tuner's."""

import inspect
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from harness.extras import stand_in


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
        numbered = torch.ones(2, device=0)
    assert told == (True, "cuda")
    assert (made.device.type, made.sum().item(), numbered.device.type) == ("cpu", 6, "cpu")


IMPORTING = """
import sys, torch
from harness.extras.stand_in import stand_in_for_cuda

class Noting:
    def find_spec(self, name, *_):
        if name == "tilelang.carver":
            print(torch.cuda.is_available())

sys.meta_path.insert(0, Noting())
stand_in_for_cuda("sm_90a", 132)
import tilelang.carver
print(torch.cuda.is_available())
"""


def test_what_asks_for_a_gpu_when_imported_is_imported_before_there_seems_to_be_one() -> None:
    """As TileLang 0.1.9 does, which then asks TVM for that GPU's facts."""
    none = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", IMPORTING], env=none, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


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


def test_what_a_caller_gives_is_pinned_and_the_rest_is_not_chosen() -> None:
    jit = SimpleNamespace(compile=dict, signature=inspect.signature(lambda m, block, stages: None))
    tuner = SimpleNamespace(jit_impl=jit, configs=lambda **_: [{"block": 64, "stages": 2}])
    assert stand_in.pinned(tuner, m=7, block=16, __return_kernel=True) == {"m": 7, "block": 16}
    with pytest.raises(RuntimeError, match="it runs a tuner of its own, which needs a GPU"):
        stand_in.pinned(tuner, m=7)

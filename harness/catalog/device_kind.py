"""What differs between a CPU and a GPU outside the judge; what decides a verdict is in harness/judge/facts."""

from dataclasses import dataclass
from typing import Final

from harness.judge.facts.gpu import Gpu


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """``torch_device`` is torch's name of it, ``good_samples`` the folder of the self-test's honest kernels.

    An adversary's ratio may exceed the honest kernel's by the share ``adversary_grace``. ``screen_tolerance`` is a
    factor: extra tolerance for the difference between screen and race.
    """

    torch_device: str
    good_samples: str
    adversary_grace: float
    screen_tolerance: float


CPU_KIND: Final = DeviceKind("cpu", "tests/samples/good", adversary_grace=0.6, screen_tolerance=1.15)
GPU_KIND: Final = DeviceKind("cuda", "tests/samples/good_on_gpu", adversary_grace=0.03, screen_tolerance=1.01)


def kind_of(gpu: Gpu) -> DeviceKind:
    return CPU_KIND if gpu.is_cpu else GPU_KIND

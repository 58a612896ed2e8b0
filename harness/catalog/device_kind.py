"""What differs between a CPU and a GPU outside the judge; what decides a verdict is in harness/judge/facts."""

from dataclasses import dataclass
from typing import Final

from harness.judge.facts.gpu import Gpu


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """``torch_device`` is torch's name of it, ``good_samples`` the folder of the self-test's honest kernels.

    An adversary may be ahead of the honest kernel by ``adversary_grace``, a share. A race ends with the candidates
    within ``race_near``, a factor, of its leader.
    """

    torch_device: str
    good_samples: str
    adversary_grace: float
    race_near: float


_CPU: Final = DeviceKind("cpu", "tests/samples/good", adversary_grace=0.6, race_near=1.15)
_GPU: Final = DeviceKind("cuda", "tests/samples/good_on_gpu", adversary_grace=0.03, race_near=1.01)


def kind_of(gpu: Gpu) -> DeviceKind:
    return _CPU if gpu.is_cpu else _GPU

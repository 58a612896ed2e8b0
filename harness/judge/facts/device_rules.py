"""What differs between measuring on a GPU and on one core of a CPU."""

from dataclasses import dataclass
from typing import Final

from harness.judge.facts.gpu import Gpu

LONG_BLOCK_MS: Final = 7.5  # half as long again as a block should be, so it is of one launch


@dataclass(frozen=True, slots=True)
class LatenessAllowance:
    """How much longer a contestant's block may take by the referee's clock than by its own.

    ``ms`` is absolute, ``of_block`` a share of the block and ``of_launch`` of one launch. On a CPU the untimed first
    launch finds cold caches. On a GPU the copies that look for the end of a launch take 0.01 ms each.
    """

    ms: float
    of_block: float
    of_launch: float


@dataclass(frozen=True, slots=True)
class DeviceRules:
    """The rules of one kind of device.

    ``budget_s``, ``rounds_per_placement`` and ``min_launches`` are the defaults of a measurement. ``measurements`` says
    how often a late one may be repeated. ``least_pool_bytes`` is the least size of the pool that inputs come from,
    several times an L2. A contestant is paced anew when its blocks are under ``shortest_block`` of the baseline's.
    ``rest`` is the pause before a block of one long launch, in times of that block.
    """

    budget_s: float
    rounds_per_placement: int
    min_launches: int
    measurements: int
    warm_up_s: float
    warm_up_launches: int
    arena_bytes: int
    least_pool_bytes: int
    shortest_block: float
    rest: float
    lateness: LatenessAllowance

    def rest_s(self, block_ms: float) -> float:
        """The pause before each block, in seconds, where blocks of either side take ``block_ms`` at most."""
        return self.rest * block_ms / 1e3 if block_ms > LONG_BLOCK_MS else 0.0


# Other programs share a CPU's cores. They can delay a whole measurement, and each repetition must hold by itself.
CPU_RULES: Final = DeviceRules(
    budget_s=0.5,
    rounds_per_placement=2,  # a round of what is bound by memory takes 40 ms, since its sets fill the arena
    min_launches=16,
    measurements=3,
    warm_up_s=0.05,
    warm_up_launches=3,
    arena_bytes=128 << 20,
    least_pool_bytes=0,
    shortest_block=0.5,
    rest=0.0,
    lateness=LatenessAllowance(ms=1.0, of_block=0.1, of_launch=0.5),
)
# A measurement that exceeds the allowance is made once more at the end of a run, in new processes.
GPU_RULES: Final = DeviceRules(
    budget_s=3.0,
    rounds_per_placement=6,
    min_launches=50,
    measurements=1,
    warm_up_s=0.3,
    warm_up_launches=10,
    # Blocks of what is bound by memory are as long as their sets have room. With 6 GiB they took 1.3 ms on an H200, of
    # which the allowance was 3%.
    arena_bytes=12 << 30,
    least_pool_bytes=256 << 20,
    shortest_block=0.8,
    # Blocks of 12 ms, one after another, drew 670 W on an H200, and the clock moved between 1.4 and 1.97 GHz. With 40
    # ms before each, a product of 16416 cubed took 11.6 ms for 12.4, and its interval was 0.3% wide for 3%.
    rest=4.0,
    # 367 honest measurements on two H200s had medians of -0.067 to 0.059 ms in blocks of up to 7 ms. Nearly all were
    # under 0.03 ms. One of 11 ms had 0.076 ms.
    lateness=LatenessAllowance(ms=0.05, of_block=0.005, of_launch=0.0),
)


def rules_of(gpu: Gpu) -> DeviceRules:
    return CPU_RULES if gpu.is_cpu else GPU_RULES

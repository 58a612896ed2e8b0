"""How many iterations build at once, how far ahead, and on which cores, while others are measured."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from harness.judge.facts.gpu import Gpu
from harness.judge.interpreters import server_pids
from harness.judge.processes import measuring_core
from harness.machine import cores

CPU_WINDOW: Final = 16  # builds ahead of what a CPU measures
SPARE_CORES: Final = 2  # for the two processes that measure
# Before a GPU has anything to measure. On an H200's 16 cores the first of 14 at once took 12 to 19 s each. Later ones
# of the same ladders were fewer at once, and took 6 to 12 s. Four are measured in about the time that 14 more take.
FIRST_BUILDS: Final = 4


@dataclass(frozen=True, slots=True)
class Builders:
    """``jobs`` build at once, at most ``window`` ahead, and only ``first`` before one is done.

    ``in_batches`` they take turns with what is measured. The fields are parameters of ``run_ahead``.
    """

    jobs: int
    window: int
    first: int
    in_batches: bool = False

    def each_of(self, builds: int) -> "Builders":
        """The same cores for items that are several builds each."""
        return replace(self, jobs=max(1, self.jobs // builds), first=max(1, self.first // builds))


@contextmanager
def builders(gpu: Gpu, *, measures: bool) -> Iterator[Builders]:
    """The builders of a run; the forkservers must have begun.

    A CPU measures on one core, which builds would disturb. They keep to cores that share nothing with it. Where there
    are none, they take turns with what is measured.
    """
    core = measuring_core(gpu) if measures else None
    if core is None:
        jobs = cores.jobs(SPARE_CORES if measures else 0)
        yield Builders(jobs, 2 * jobs, min(jobs, FIRST_BUILDS) if measures else 2 * jobs)
    elif apart := cores.apart_from(core):
        for server in server_pids():
            cores.pin(server, *apart)
        try:
            jobs = min(len(apart), cores.jobs(1))
            yield Builders(jobs, CPU_WINDOW, jobs)
        finally:
            for server in server_pids():
                cores.pin(server, *cores.allowed())
    else:
        jobs = cores.jobs()
        yield Builders(jobs, CPU_WINDOW, jobs, in_batches=True)

"""The serving loop, the same for contestant and baseline: launch blocks when the referee orders them."""

from functools import partial
from multiprocessing.connection import Connection

import torch
from msgspec.structs import replace

from harness.judge.child.arena import receive_arena
from harness.judge.child.brief import Brief
from harness.judge.child.capture import was_compiling
from harness.judge.child.clock import CLOCKS, Clock
from harness.judge.child.confinement import no_more_processes
from harness.judge.child.failure import failed
from harness.judge.child.kernel import Kernel
from harness.judge.child.launches import Call, inspect
from harness.judge.child.libraries import loaded
from harness.judge.child.preparation import Preparation
from harness.judge.messages import Broken, Inspect, Message, Prepare, Ran, Ready, Renew, Run, receive, send
from harness.records.base import Cause


def serve(brief: Brief, kernel: Kernel, referee: Connection) -> None:
    """Answer the referee until it hangs up or the kernel breaks."""
    try:
        arena = receive_arena(referee, cpu=brief.gpu.is_cpu)
    except RuntimeError as error:  # the device has no room for one more context
        receive(referee, Prepare | Run)
        send(referee, failed(error, Cause.OUT_OF_MEMORY, brief))
        return
    clock: Clock | None = None
    calls: list[Call] = []
    preparation: Preparation | None = None
    ran = False
    libraries: dict[str, str] = {}
    answer: Message = Ready()
    while not isinstance(answer, Broken):
        order = receive(referee, Prepare | Renew | Inspect | Run)
        try:
            if isinstance(order, Prepare):
                clock = preparation = None
                calls = []  # all three hold memory
                launch = kernel.writing if order.writes and kernel.writing is not None else kernel.launch
                sets = arena.sets(brief.problem, order.sets)
                preparation = Preparation(kernel.prepare, sets, len(brief.problem.inputs))
                calls = [partial(launch, *tensors) for tensors in preparation.sets]
                clock = CLOCKS[order.timer](calls[0], calls[1:])
                libraries = libraries or (loaded() if ran else {})
                answer = Ready(libraries, clock.overlap, kernel.prepare is not None)
            elif isinstance(order, Renew):
                assert preparation is not None, "Renew before Prepare"
                preparation.again()
                answer = Ready()
            elif isinstance(order, Inspect):
                answer = replace(inspect(calls, cpu=brief.gpu.is_cpu), unpinned=kernel.unpinned())
            else:
                assert clock is not None, "Run before Prepare"
                answer = Ran(clock.run(order.repetitions))
                if not ran:  # a kernel that compiles at its first call has compiled by now
                    no_more_processes()
                ran = True
        except (MemoryError, torch.OutOfMemoryError) as error:
            answer = failed(error, Cause.OUT_OF_MEMORY, brief)
        except BaseException as error:
            answer = failed(error, Cause.COMPILE if was_compiling(error) else Cause.RUNTIME, brief)
        send(referee, answer)

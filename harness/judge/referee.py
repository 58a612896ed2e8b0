"""The referee: the trusted process that makes inputs, computes the reference, runs the baseline and compares."""

import os
import random
import sys
import time
from dataclasses import dataclass
from functools import partial
from multiprocessing import reduction
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, Final, NoReturn

import msgspec
import torch

from harness.gpus import Gpu
from harness.judge import trials
from harness.judge.arena import Arena, arena_bytes, create_arena, place, set_bytes
from harness.judge.clock import CLOCKS, Clock
from harness.judge.contents import Contents
from harness.judge.entry import Brief
from harness.judge.limits import complaint
from harness.judge.messages import (
    Broken,
    Dismiss,
    Measure,
    Measured,
    Meet,
    Message,
    Pace,
    Paced,
    Prepare,
    Ran,
    Ready,
    Run,
    Seated,
    Trouble,
    Verdict,
    Verified,
    Verify,
    receive,
    send,
)
from harness.problem import Problem
from harness.records import Block, Cause, Trial

BLOCK_MS: Final = 5.0  # short and in random order: longer blocks see the power controller move within them
WARM_UP_S: Final = {True: 0.1, False: 0.3}  # by "is a CPU"
WARM_UP_LAUNCHES: Final = 10
ARENA_BYTES: Final = {True: 256 << 20, False: 6 << 30}
HEADROOM: Final = 1.3  # sets for a contestant this much faster than the baseline
CLOCK_ALLOWANCE_MS: Final = 1.0
CLOCK_ALLOWANCE: Final = 0.10


class Out(Exception):
    """The contestant is out of the race."""

    def __init__(self, cause: Cause, reason: str) -> None:
        super().__init__(reason)
        self.cause = cause
        self.reason = reason


def referee(brief: Brief, parent: Connection) -> NoReturn:
    """Body of the process: one problem, one contestant after another, until the parent hangs up."""
    try:
        os.setsid()
        sys.path.insert(0, str(brief.root))
        if brief.gpu.is_cpu:
            torch.set_num_threads(1)
        if brief.core is not None:
            os.sched_setaffinity(0, {brief.core})
        bench = _Bench(brief.problem, brief.gpu)
        send(parent, Seated(bench.baseline_name))
        while True:
            order = receive(parent, Meet | Verify | Pace | Measure | Dismiss)
            answer = bench.meet(order, parent) if isinstance(order, Meet) else bench.obey(order)
            if answer is not None:
                send(parent, answer)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    except BaseException as error:
        send(parent, Trouble(f"{type(error).__name__}: {error}"[:400]))
    finally:
        os._exit(0)


@dataclass(slots=True)
class _Opponent:
    """A contestant as the referee sees it: a channel, with a deadline on every answer."""

    channel: Connection
    deadline_s: float
    pid: int
    cpu: bool
    launches: int = 1
    spent_ms: float = 0.0

    def ask(self, order: Message, kind: Any) -> Any:
        started = self._now()
        try:
            send(self.channel, order)
            if not self.channel.poll(self.deadline_s):
                raise Out(Cause.TIMEOUT, f"no answer within {self.deadline_s:g} s of {type(order).__name__.lower()}")
            answer = receive(self.channel, kind | Broken)
        except (EOFError, OSError):
            raise Out(Cause.CRASH, "the process ended while its kernel ran") from None
        except msgspec.MsgspecError:
            raise Out(Cause.CRASH, "the process answered with something that is no answer") from None
        self.spent_ms = (self._now() - started) * 1e3
        if isinstance(answer, Broken):
            raise Out(answer.cause, answer.reason)
        return answer

    def _now(self) -> float:
        """The second clock, out of the contestant's reach: the wall's, or on a CPU what all its threads have used."""
        if not self.cpu:
            return time.perf_counter()
        try:
            return time.clock_gettime((~self.pid << 3) | 2)  # CPUCLOCK_SCHED of a process, see clock_getcpuclockid
        except OSError:
            raise Out(Cause.CRASH, "the process ended while its kernel ran") from None

    def prepare(self, sets: tuple[tuple[int, ...], ...], timer: str) -> None:
        self.ask(Prepare(sets, timer), Ready)

    def run(self) -> Ran:
        answer = self.ask(Run(), Ran)
        assert isinstance(answer, Ran)
        return answer


class _Bench:
    """One problem on one device: arena, contents, baseline, dice."""

    def __init__(self, problem: Problem, gpu: Gpu) -> None:
        import baselines

        self.problem, self.gpu = problem, gpu
        self.baseline = baselines.library(problem)
        self.baseline_name = self.baseline.name
        self.dice = random.Random(os.urandom(16))
        self.timer = gpu.timer(problem)
        self.opponent: _Opponent | None = None
        budget = ARENA_BYTES[gpu.is_cpu]
        most = max(2, budget // set_bytes(problem))
        self.arena: Arena = create_arena(arena_bytes(problem, 3 if most > 2 else 2), cpu=gpu.is_cpu)
        self.generator = torch.Generator(self.arena.device)
        self.generator.manual_seed(int.from_bytes(os.urandom(7), "little"))
        self.launches = self._baseline_launches(most - 1)
        self.capacity = min(most - 1, int(self.launches * HEADROOM) + 1)
        # One launch, one set: no timed launch of a block sees the inputs of another.
        self.arena = create_arena(arena_bytes(problem, self.capacity + 1), cpu=gpu.is_cpu)

    def meet(self, order: Meet, parent: Connection) -> Message | None:
        channel = Connection(reduction.recv_handle(parent))
        try:
            self.arena.send(channel, order.pid)
        except OSError:
            return Verdict(Cause.CRASH, "the process ended before its first launch")
        self.opponent = _Opponent(channel, order.deadline_s, order.pid, self.gpu.is_cpu)
        return None

    def obey(self, order: Verify | Pace | Measure | Dismiss) -> Message | None:
        if isinstance(order, Dismiss):
            if self.opponent is not None:
                self.opponent.channel.close()
            self.opponent = None
            return None
        if self.opponent is None:
            return Verdict(Cause.CRASH, "the process ended before its first launch")
        try:
            if isinstance(order, Verify):
                return self._verify(self.opponent)
            if isinstance(order, Pace):
                return self._pace(self.opponent)
            return self._measure(self.opponent, order)
        except Out as out:
            return Verdict(out.cause, out.reason)

    # Verification: untimed launches on scaled random data, on integers, and on random data in the same buffers.

    def _verify(self, opponent: _Opponent) -> Verified:
        sets = place(self.problem, 2, self.arena.size, self.dice)
        contents = Contents(self.problem, self.arena, sets, self.generator, self.dice)
        opponent.prepare(sets, "host" if self.gpu.is_cpu else "events")
        found = []
        for name in ("random", "exact", "refreshed"):
            contents.refresh()
            if name == "exact":
                contents.fill_exact()
            found.append(self._judge(name, opponent, contents, 1))
            if complaint(found[-1]) is not None:
                break
        return Verified(tuple(found))

    def _judge(self, name: str, opponent: _Opponent, contents: Contents, index: int) -> Trial:
        """Run a block and compare the output of one of its sets, against inputs that the referee kept."""
        inputs = contents.keep_inputs(index)
        self._synchronize()
        opponent.run()
        return self._compare(name, contents, index, inputs)

    def _compare(self, name: str, contents: Contents, index: int, inputs: list[torch.Tensor]) -> Trial:
        if not contents.holds(index, inputs):
            raise Out(Cause.INPUT_CHANGED, f"{name} trial: the inputs are not what they were before the launch")
        expected = trials.reference(self.problem, inputs)
        output = contents.output(index)
        if name == "exact":
            return trials.compare_exact(name, output, expected)
        return trials.compare(name, self.problem, output, expected)

    # Measurement.

    def _pace(self, opponent: _Opponent) -> Paced:
        """Choose the contestant's launches per block from a probe, then warm both sides up."""
        sets = place(self.problem, 2, self.arena.size, self.dice)
        Contents(self.problem, self.arena, sets, self.generator, self.dice).refresh()
        self._synchronize()
        opponent.prepare(sets, "host" if self.gpu.is_cpu else "events")
        probe_ms = min(opponent.run().elapsed_ms for _ in range(3))
        opponent.launches = max(1, min(self.capacity, round(BLOCK_MS / max(probe_ms, 1e-3))))
        contents, clock = self._draw(opponent)
        started = time.perf_counter()
        first_ms, launched = 0.0, 0
        while time.perf_counter() - started < WARM_UP_S[self.gpu.is_cpu] or launched < WARM_UP_LAUNCHES:
            contents.refresh()
            self._synchronize()
            clock.run()
            first_ms = first_ms or opponent.run().elapsed_ms
            launched += opponent.launches
        if self.timer == "graph":  # the probe timed the host; now the device's own time is known
            launch_ms = first_ms / opponent.launches
            opponent.launches = max(1, min(self.capacity, round(BLOCK_MS / max(launch_ms, 1e-4))))
        return Paced(opponent.launches, self.launches)

    def _measure(self, opponent: _Opponent, order: Measure) -> Measured:
        """Rounds on one newly drawn placement: baseline and contestant in random order, one timed output verified."""
        started = time.perf_counter()
        contents, clock = self._draw(opponent)
        self._round(opponent, contents, clock, order.placement)  # first touch of the placement is not measured
        checked = self.dice.randrange(order.rounds)
        blocks: list[Block] = []
        found: list[Trial] = []
        excess_ms: list[float] = []
        for number in range(order.rounds):
            index = self.dice.randint(1, opponent.launches) if number == checked else None
            block, late_ms, trial = self._round(opponent, contents, clock, order.placement, index)
            blocks.append(block)
            excess_ms.append(late_ms)
            if trial is not None:
                found.append(trial)
        allowed_ms = CLOCK_ALLOWANCE_MS + CLOCK_ALLOWANCE * median(b.contestant_ms for b in blocks) * opponent.launches
        if median(excess_ms) > allowed_ms:
            raise Out(
                Cause.CLOCK,
                f"a block took {median(excess_ms):.2f} ms longer by the referee's clock than its own events say",
            )
        return Measured(tuple(blocks), tuple(found), time.perf_counter() - started)

    def _round(
        self, opponent: _Opponent, contents: Contents, clock: Clock, placement: int, checked: int | None = None
    ) -> tuple[Block, float, Trial | None]:
        """One block of each side. Before each, all contents are new and all outputs NaN: nothing can be replayed."""
        baseline_ms = contestant_ms = late_ms = 0.0
        trial = None
        for side in self.dice.sample(("baseline", "contestant"), 2):
            contents.refresh()
            if side == "baseline":
                self._synchronize()
                baseline_ms = clock.run()[0] / self.launches
                continue
            inputs = contents.keep_inputs(checked) if checked is not None else []
            self._synchronize()
            ran = opponent.run()
            contestant_ms = ran.elapsed_ms / opponent.launches
            late_ms = max(ran.tail_ms, opponent.spent_ms - ran.elapsed_ms - contestant_ms)
            if not contestant_ms > 0:
                raise Out(Cause.CLOCK, "the contestant reported a block that took no time")
            if not contents.written(self.dice.sample(range(1, opponent.launches + 1), min(4, opponent.launches))):
                raise Out(Cause.WRONG_RESULT, "a timed launch left its output unwritten")
            if checked is not None:
                trial = self._compare("timed", contents, checked, inputs)
        return Block(placement, baseline_ms, contestant_ms), late_ms, trial

    def _draw(self, opponent: _Opponent) -> tuple[Contents, Clock]:
        """A new placement, with both sides bound to it."""
        count = max(opponent.launches, self.launches) + 1
        sets = place(self.problem, count, self.arena.size, self.dice)
        contents = Contents(self.problem, self.arena, sets, self.generator, self.dice)
        contents.refresh()
        self._synchronize()
        opponent.prepare(sets[: opponent.launches + 1], self.timer)
        return contents, self._clock(contents.sets[: self.launches + 1])

    def _clock(self, sets: list[list[torch.Tensor]]) -> Clock:
        calls = [partial(self.baseline, *tensors) for tensors in sets]
        return CLOCKS[self.timer](calls[0], calls[1:])

    def _baseline_launches(self, most: int) -> int:
        sets = place(self.problem, 2, self.arena.size, self.dice)
        contents = Contents(self.problem, self.arena, sets, self.generator, self.dice)
        contents.refresh()
        calls = [partial(self.baseline, *tensors) for tensors in contents.sets]
        repeats = 1 if self.gpu.floor_ms(self.problem) > BLOCK_MS else 10
        probe = CLOCKS[self.timer](calls[0], [calls[1]] * repeats)
        launch_ms = min(probe.run()[0] for _ in range(3)) / repeats
        return max(1, min(most, round(BLOCK_MS / launch_ms)))

    def _synchronize(self) -> None:
        if not self.gpu.is_cpu:
            torch.cuda.synchronize()

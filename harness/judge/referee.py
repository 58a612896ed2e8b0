"""The referee: the trusted process that makes inputs, computes the reference, runs the baseline and compares."""

import os
import random
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import reduction
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, Final, NoReturn

import msgspec
import torch

from harness.gpus import Gpu
from harness.judge import trials
from harness.judge.arena import Arena, Set, arena_bytes, create_arena, place, set_bytes
from harness.judge.contents import Contents, Look
from harness.judge.entry import Brief
from harness.judge.limits import complaint
from harness.judge.messages import (
    Broken,
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
from harness.judge.settle import settle
from harness.problem import Problem
from harness.records import Block, Cause, Trial

BLOCK_MS: Final = 5.0  # short and in random order: longer blocks see the power controller move within them
WARM_UP_S: Final = {True: 0.1, False: 0.3}  # by "is a CPU"
WARM_UP_LAUNCHES: Final = 10
PACING_ROUNDS: Final = 3
ARENA_BYTES: Final = {True: 256 << 20, False: 6 << 30}
CPU_LAUNCHES: Final = 64
CLOCK_ALLOWANCE_MS: Final = 1.0
CLOCK_ALLOWANCE: Final = 0.10
_CPUCLOCK_SCHED: Final = 2  # with a negated PID: the CPU time of a process, as clock_getcpuclockid makes it


class Out(Exception):
    """The contestant is out of the race."""

    def __init__(self, cause: Cause, reason: str) -> None:
        super().__init__(reason)
        self.cause = cause
        self.reason = reason


def referee(brief: Brief, parent: Connection) -> NoReturn:
    """Body of the process: one problem, one contestant after another, until the parent hangs up."""
    try:
        settle(brief)
        bench = _Bench(brief.problem, brief.gpu)
        send(parent, Seated(bench.baseline))
        while True:
            order = receive(parent, Meet | Verify | Pace | Measure)
            if isinstance(order, Meet):
                bench.meet(order, parent)
            else:
                send(parent, bench.obey(order))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    except BaseException as error:
        send(parent, Trouble(f"{type(error).__name__}: {error}"[:400]))
    finally:
        os._exit(0)


@dataclass(slots=True)
class _Side:
    """Baseline or contestant as the referee sees it: a channel, with a deadline on every answer, and a second clock."""

    name: str
    channel: Connection
    pid: int
    deadline_s: float
    cpu: bool
    launches: int = 1
    spent_ms: float = 0.0

    def prepare(self, sets: tuple[Set, ...], timer: str) -> None:
        self._ask(Prepare(sets, timer), Ready)

    def run(self) -> Ran:
        answer: Ran = self._ask(Run(), Ran)
        if not answer.elapsed_ms > 0:
            raise Out(Cause.CLOCK, "a block is said to have taken no time")
        return answer

    def late_ms(self, ran: Ran) -> float:
        """How much longer the last block took by the second clock than its own says, its lead-in allowed for."""
        return max(ran.tail_ms, self.spent_ms - ran.elapsed_ms * (1 + 1 / self.launches))

    def _ask(self, order: Message, kind: Any) -> Any:
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
        """The second clock, out of the process's own reach: the wall's, or on a CPU what all its threads have used."""
        if not self.cpu:
            return time.perf_counter()
        try:
            return time.clock_gettime((~self.pid << 3) | _CPUCLOCK_SCHED)
        except OSError:
            raise Out(Cause.CRASH, "the process ended while its kernel ran") from None


class _Bench:
    """One problem on one device: arena, contents, both sides, dice."""

    def __init__(self, problem: Problem, gpu: Gpu) -> None:
        import baselines

        self.baseline = baselines.library(problem).name
        self.problem, self.gpu = problem, gpu
        self.timer = gpu.timer(problem)
        self.dice = random.Random(os.urandom(16))
        self.sides: dict[str, _Side] = {}
        # One launch, one set: no timed launch of a block sees the inputs of another.
        self.capacity = min(_most_launches(problem, gpu), max(1, ARENA_BYTES[gpu.is_cpu] // set_bytes(problem) - 1))
        self.arena: Arena = create_arena(arena_bytes(problem, self.capacity + 1), cpu=gpu.is_cpu)
        self.generator = torch.Generator(self.arena.device)
        self.generator.manual_seed(int.from_bytes(os.urandom(7), "little"))

    def meet(self, order: Meet, parent: Connection) -> None:
        channel = Connection(reduction.recv_handle(parent))
        if order.side in self.sides:  # of the pair before
            self.sides.pop(order.side).channel.close()
        self.sides[order.side] = _Side(order.side, channel, order.pid, order.deadline_s, self.gpu.is_cpu)
        with suppress(OSError):  # a side that is gone already is found out at its first order
            self.arena.send(channel, order.pid)

    def obey(self, order: Verify | Pace | Measure) -> Message:
        try:
            if isinstance(order, Verify):
                return self._verify()
            return self._pace() if isinstance(order, Pace) else self._measure(order)
        except Out as out:
            return Verdict(out.cause, out.reason)

    # Verification: untimed launches on scaled random data, on integers, and on random data in the same buffers.

    def _verify(self) -> Verified:
        side = self.sides["contestant"]
        contents = self._place(2)
        side.prepare(contents.placement, self._plain_timer)
        found: list[Trial] = []
        for name in ("random", "exact", "refreshed"):
            contents.refresh()
            if name == "exact":
                contents.fill_exact()
            inputs = contents.keep_inputs(1)
            self._synchronize()
            side.run()
            found.append(self._compare(name, contents.look(1, 1, inputs)))
            if complaint(found[-1]) is not None:
                break
        return Verified(tuple(found))

    def _compare(self, name: str, look: Look) -> Trial:
        """The output of one set against the reference, computed from inputs that the referee kept."""
        if not look.inputs_held:
            raise Out(Cause.INPUT_CHANGED, f"{name} trial: the inputs are not what they were before the launch")
        expected = trials.reference(self.problem, look.inputs)
        if name == "exact":
            return trials.compare_exact(name, look.output, expected)
        return trials.compare(name, self.problem, look.output, expected)

    # Measurement.

    def _pace(self) -> Paced:
        """Choose the launches per block of each side, and warm both up.

        Blocks of both sides last equally long: under a power cap the clocks fall within a block, and a block that is
        one launch of 28 longer showed a kernel 0.1% slower than itself.
        """
        baseline, contestant = self.sides["baseline"], self.sides["contestant"]
        contents = self._place(2)
        contents.refresh()
        for side in (baseline, contestant):
            side.prepare(contents.placement, self._plain_timer)
            side.launches = self._launches(min(self._run(side).elapsed_ms for _ in range(3)))
        for _ in range(2 if self.timer == "graph" else 1):  # the first estimate of a graph holds the host's time too
            contents = self._draw()
            rounds = [self._round(contents, 0)[0] for _ in range(PACING_ROUNDS)]
            baseline_ms = median(block.baseline_ms for block in rounds)
            baseline.launches = self._launches(baseline_ms)
            block_ms = baseline.launches * baseline_ms
            contestant.launches = self._launches(median(block.contestant_ms for block in rounds), block_ms)
        contents = self._draw()
        until = time.perf_counter() + WARM_UP_S[self.gpu.is_cpu]
        launched = 0
        while time.perf_counter() < until or launched < WARM_UP_LAUNCHES:
            self._round(contents, 0)
            launched += min(baseline.launches, contestant.launches)
        return Paced(contestant.launches, baseline.launches)

    def _measure(self, order: Measure) -> Measured:
        """Rounds on one newly drawn placement: both sides in random order, one timed output verified."""
        started = time.perf_counter()
        contents = self._draw()
        self._round(contents, order.placement)  # the first touch of a placement is not measured
        side = self.sides["contestant"]
        least = min(each.launches for each in self.sides.values())
        checked = self.dice.randrange(order.rounds)
        blocks: list[Block] = []
        found: list[Trial] = []
        late_ms: list[float] = []
        for number in range(order.rounds):
            index = self.dice.randint(1, least) if number == checked else None
            block, late, trial = self._round(contents, order.placement, index)
            blocks.append(block)
            late_ms.append(late)
            if trial is not None:
                found.append(trial)
        elapsed_ms = median(block.contestant_ms for block in blocks) * side.launches
        if median(late_ms) > CLOCK_ALLOWANCE_MS + CLOCK_ALLOWANCE * elapsed_ms:
            raise Out(
                Cause.CLOCK,
                f"a block of {elapsed_ms:.3g} ms took {median(late_ms):.3g} ms longer by the referee's clock",
            )
        return Measured(tuple(blocks), tuple(found), time.perf_counter() - started)

    def _round(
        self, contents: Contents, placement: int, checked: int | None = None
    ) -> tuple[Block, float, Trial | None]:
        """One block of each side, in random order.

        Before each, all inputs are new and all outputs NaN: nothing can be replayed. Both sides are treated alike to
        the last copy, and comparing waits until both have run: what heats the chip must not precede one side more
        often than the other.
        """
        taken_ms: dict[str, float] = {}
        looks: dict[str, Look] = {}
        late_ms: dict[str, float] = {}
        for side in self.dice.sample(list(self.sides.values()), 2):
            contents.refresh()
            inputs = contents.keep_inputs(checked) if checked is not None else []
            ran = self._run(side)
            taken_ms[side.name] = ran.elapsed_ms / side.launches
            late_ms[side.name] = side.late_ms(ran)
            looks[side.name] = contents.look(side.launches, checked, inputs)
        look = looks["contestant"]
        if not look.written:
            raise Out(Cause.WRONG_RESULT, "a timed launch left its output unwritten")
        trial = None if checked is None else self._compare("timed", look)
        return Block(placement, taken_ms["baseline"], taken_ms["contestant"]), late_ms["contestant"], trial

    def _run(self, side: _Side) -> Ran:
        self._synchronize()
        try:
            return side.run()
        except Out as out:
            if side.name == "baseline":
                raise RuntimeError(f"the baseline's process: {out.reason}") from None
            raise

    def _launches(self, launch_ms: float, block_ms: float = BLOCK_MS) -> int:
        return max(1, min(self.capacity, round(block_ms / launch_ms)))

    def _draw(self) -> Contents:
        """A new placement, with both sides bound to it."""
        contents = self._place(max(side.launches for side in self.sides.values()) + 1)
        contents.refresh()
        self._synchronize()
        for side in self.sides.values():
            side.prepare(contents.placement[: side.launches + 1], self.timer)
        return contents

    def _place(self, sets: int) -> Contents:
        placement = place(self.problem, sets, self.arena.size, self.dice)
        return Contents(self.problem, self.arena, placement, self.generator, self.dice)

    @property
    def _plain_timer(self) -> str:
        return "host" if self.gpu.is_cpu else "events"

    def _synchronize(self) -> None:
        if not self.gpu.is_cpu:
            torch.cuda.synchronize()


def _most_launches(problem: Problem, gpu: Gpu) -> int:
    """Launches of the fastest kernel that the roofline allows, in one block."""
    floor_ms = gpu.floor_ms(problem)
    return round(BLOCK_MS / floor_ms) + 1 if floor_ms > 0 else CPU_LAUNCHES

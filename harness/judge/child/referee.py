"""The referee: the trusted process that fills inputs, orders blocks, computes the reference and compares."""

import itertools
import os
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import reduction
from multiprocessing.connection import Connection
from statistics import median
from typing import Final

import torch

from harness.errors import described
from harness.judge.child import chain, trials
from harness.judge.child.arena import Arena, arena_bytes, create_arena, draw_span, granule, place, set_bytes
from harness.judge.child.body import child_body
from harness.judge.child.brief import Brief
from harness.judge.child.completion import Completion
from harness.judge.child.contents import SEED_BITS, Contents, Look
from harness.judge.child.launches import complaint_of_launches
from harness.judge.child.side import Out, ServedSide, in_turns
from harness.judge.facts.device_rules import rules_of
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.judge.limits import complaint, sketch_limit
from harness.judge.messages import (
    Alone,
    BaselineAlone,
    Disqualified,
    Measure,
    Measured,
    Meet,
    Message,
    Pace,
    Paced,
    PhasePair,
    Seated,
    SidePhase,
    Sustain,
    Trouble,
    Verified,
    Verify,
    receive,
    send,
)
from harness.records.base import Cause
from harness.records.results import BlockPair, Trial

BLOCK_MS: Final = 5.0  # short, because the power controller moves within longer blocks
PACING_ROUNDS: Final = 3
CPU_LAUNCHES: Final = 512


def referee(brief: Brief, parent: Connection) -> None:
    """Body of the process: one problem, one contestant after another, until the parent hangs up."""
    with child_body(brief, parent, lambda error: Trouble(described(error))):
        bench = _Bench(brief.problem, brief.gpu)
        send(parent, Seated(bench.baseline))
        while True:
            order = receive(parent, Meet | Verify | Pace | Measure | Sustain | Alone)
            if isinstance(order, Meet):
                bench.meet(order, parent)
            else:
                send(parent, bench.obey(order))


class _Bench:
    """One problem on one device: the arena, its contents, and both sides."""

    def __init__(self, problem: Problem, gpu: Gpu) -> None:
        import baselines

        self.baseline = baselines.library(problem).name
        self.problem, self.gpu = problem, gpu
        self.timer = gpu.timer
        self.rules = rules_of(gpu)
        self.dice = random.Random(os.urandom(16))
        self.sides: dict[str, ServedSide] = {}
        self.opponent = ""  # in the library's place
        self.baseline_rounds: list[tuple[int, float]] = []  # of a measurement: seed, and the baseline's ms per launch
        cpu = gpu.is_cpu
        self.granule = granule(problem, cpu=cpu)
        # Each timed launch of a block has its own set of inputs.
        fitting = max(1, self._room_bytes() // set_bytes(problem, self.granule) - 1)
        self.capacity = min(_most_launches(problem, gpu), fitting)
        self.arena: Arena = create_arena(arena_bytes(problem, self.capacity + 1, self.granule), cpu=cpu)
        self.idle_probe = torch.zeros(1, device=self.arena.device)
        self.generator = torch.Generator(self.arena.device)
        self.generator.manual_seed(int.from_bytes(os.urandom(7), "little"))

    def _room_bytes(self) -> int:
        """For the sets of a block: a quarter of a GPU's memory at most."""
        if self.gpu.is_cpu:
            return self.rules.arena_bytes
        _, total_bytes = torch.cuda.mem_get_info()
        return min(self.rules.arena_bytes, total_bytes // 4)

    def meet(self, order: Meet, parent: Connection) -> None:
        channel = Connection(reduction.recv_handle(parent))
        if order.side in self.sides:  # from the pair before
            self.sides.pop(order.side).channel.close()
        if order.side == "baseline":
            self.opponent = order.opponent
        self.sides[order.side] = ServedSide(
            order.side, channel, order.pid, order.deadline_s, self.gpu.is_cpu, order.prepares
        )
        with suppress(OSError):  # a side that is gone fails at its first order
            self.arena.send(channel, order.pid)

    def obey(self, order: Verify | Pace | Measure | Sustain | Alone) -> Message:
        try:
            match order:
                case Verify():
                    return self._verify(order)
                case Pace():
                    return self._pace()
                case Measure():
                    return self._measure(order)
                case Sustain():
                    return self._sustain(order)
                case Alone():
                    return self._alone(order)
        except Out as out:
            if out.side == "baseline":
                raise RuntimeError(f"the {self.opponent or 'baseline'}'s process: {out.reason}") from None
            return Disqualified(out.cause, out.reason, out.traceback)

    # Verification: untimed launches on scaled random data, on integers, and on random data in the same buffers.

    def _verify(self, order: Verify) -> Verified:
        side = self.sides["contestant"]
        contents = self._place(2)
        for each in self.dice.sample(list(self.sides.values()), 2):  # neither side always loads its code first
            contents.refresh()
            each.prepare(contents.placement, self.gpu.plain_timer)
            self._run(each)
        self._verify_baseline(contents)
        found: list[Trial] = []
        for trial in itertools.chain(self._trials(side, contents), self._chained(side)):
            found.append(trial)
            if complaint(trial) is not None:
                return Verified(tuple(found))
        if not order.library:
            inspected = side.inspect()
            wrong = complaint_of_launches(inspected, self.problem, cpu=self.gpu.is_cpu)
            if wrong is not None:
                raise Out(Cause.FOREIGN_KERNEL, wrong)
            if inspected.unpinned:  # by a kernel that is made at its first call
                raise Out(Cause.NOT_PINNED, inspected.unpinned)
        return Verified(tuple(found))

    def _verify_baseline(self, contents: Contents) -> None:
        """Raise RuntimeError if the library's result is wrong: every ratio is relative to it. Of an opponent: Out."""
        side = self.sides["baseline"]
        side.prepare(contents.placement, self.gpu.plain_timer, writes=True)
        try:
            wrong = next(filter(None, map(complaint, self._trials(side, contents))), None)
        except Out as out:
            wrong = out.reason
        if wrong is not None and self.opponent:
            raise Out(Cause.WRONG_RESULT, f"opponent {self.opponent} is wrong, so there is no ratio: {wrong}")
        if wrong is not None:
            raise RuntimeError(f"the baseline {self.baseline} is wrong, so there is no ratio: {wrong}")

    def _trials(self, side: ServedSide, contents: Contents) -> Iterator[Trial]:
        """Launch on random, exact, fresh random and extreme inputs; compare each output with the reference.

        Where the operator knows no exact inputs, that launch is on random ones too.
        """
        for name in ("random", trials.EXACT, "refreshed", "corners"):
            contents.refresh()
            corners = None
            if name == trials.EXACT and not contents.fill_exact():
                name = "again"
            if name == "corners":
                corners = contents.fill_corners(1)
                if corners is None:
                    break
            inputs = contents.keep_inputs(1)
            self._synchronize()
            side.renew()
            side.run()
            if not contents.guards_held():
                raise Out(Cause.WRONG_RESULT, f"{name} trial: a launch wrote outside its outputs")
            yield from self._compare(name, contents.look(1, 1, inputs), corners)

    def _chained(self, side: ServedSide) -> Iterator[Trial]:
        """Launch in a chain, by the clock of the blocks too; none where the operator or the arena does not allow it."""
        position = chain.link(self.problem)
        if position is None or self.capacity < chain.SETS - 1:
            return
        contents = self._place(chain.SETS)
        for timer in sorted({self.gpu.plain_timer, self.timer}):
            side.prepare(chain.linked(contents.placement, position), timer)
            contents.refresh()
            _, first, second = (contents.keep_inputs(index) for index in range(chain.SETS))
            self._synchronize()
            side.renew()
            side.run()
            if not contents.guards_held():
                raise Out(Cause.WRONG_RESULT, "chained trial: a launch wrote outside its output")
            written, read = contents.sets[1][-1].clone(), contents.sets[1][position].clone()
            yield trials.compare("overwritten", self.problem, written, trials.reference(self.problem, first))
            second[position] = written
            yield from chain.compare(self.problem, second, read)

    def _compare(self, name: str, look: Look, corners: torch.Tensor | None = None) -> list[Trial]:
        """Compare the outputs of one launch with the reference of the inputs that the referee kept."""
        if not look.inputs_held:
            raise Out(Cause.INPUT_CHANGED, f"{name} trial: the inputs are not what they were before the launch")
        return trials.judged(name, self.problem, look.inputs, look.outputs, corners)

    # Measurement.

    def _pace(self) -> Paced:
        """Choose the launches per block of each side, and warm both up.

        Blocks of both sides last equally long, because under a power cap clocks fall within a block. A block that was
        one launch in 28 longer showed a kernel 0.1% slower than itself.
        """
        baseline, contestant = self.sides["baseline"], self.sides["contestant"]
        self.baseline_rounds = []
        contents = self._place(2)
        contents.refresh()
        for side in self.dice.sample((baseline, contestant), 2):
            side.prepare(contents.placement, self.gpu.plain_timer)
            side.launches = self._launches(min(self._run(side) for _ in range(3)))
        for _ in range(1 if self.gpu.is_cpu else 2):  # a graph's first estimate includes the host's time
            contents = self._draw()
            rounds = [self._round(contents, 0).block for _ in range(PACING_ROUNDS)]
            baseline_ms = median(block.baseline_ms for block in rounds)
            baseline.launches = self._launches(baseline_ms)
            block_ms = baseline.launches * baseline_ms
            contestant.launches = self._launches(median(block.contestant_ms for block in rounds), block_ms)
        contents = self._draw()
        until = time.perf_counter() + self.rules.warm_up_s
        launched = 0
        while time.perf_counter() < until or launched < self.rules.warm_up_launches:
            self._round(contents, 0)
            launched += min(baseline.launches, contestant.launches)
        return Paced(contestant.launches, baseline.launches, baseline.libraries)

    def _measure(self, order: Measure) -> Measured:
        """Rounds on one new placement, each with both sides in random order; one timed output is verified."""
        started = time.perf_counter()
        contents = self._draw()
        self._round(contents, order.placement)  # not measured: it touches the placement first
        contestant = self.sides["contestant"]
        checked = self.dice.randrange(order.rounds)
        rounds = [
            self._round(
                contents, order.placement, self.dice.randint(1, contestant.launches) if number == checked else None
            )
            for number in range(order.rounds)
        ]
        blocks = [each.block for each in rounds]
        launches = contestant.launches
        if self._too_short(blocks):
            blocks = []
        else:
            self.baseline_rounds += [(each.seed, each.block.baseline_ms) for each in rounds]
        return Measured(
            blocks=tuple(blocks),
            trials=tuple(trial for each in rounds for trial in each.trials),
            launches=launches,
            device_s=time.perf_counter() - started,
            late_ms=tuple((each.baseline_late_ms, each.late_ms) for each in rounds),
        )

    def _too_short(self, blocks: list[BlockPair]) -> bool:
        """Pace anew a contestant that was slow only while it was paced: a shorter block is cooler and flatters it."""
        baseline, contestant = self.sides["baseline"], self.sides["contestant"]
        launch_ms = median(block.contestant_ms for block in blocks)
        block_ms = baseline.launches * median(block.baseline_ms for block in blocks)
        launches = self._launches(launch_ms, block_ms)
        if contestant.launches * launch_ms >= self.rules.shortest_block * block_ms or launches <= contestant.launches:
            return False
        contestant.launches = launches
        return True

    def _sustain(self, order: Sustain) -> PhasePair:
        """A phase of each side, in random order; one output that the contestant left is verified."""
        contents = self._draw()
        phases: dict[str, SidePhase] = {}
        looks: dict[str, Look] = {}
        seed = self._seed()
        for side in self.dice.sample(list(self.sides.values()), 2):
            self._refresh(side, contents, seed)
            phases[side.name] = self._phase(side, order)
            if self.problem.overwrites:  # by now each launch has changed its own inputs again and again
                self._refresh(side, contents, seed)
                self._run(side)
            one = self.dice.randint(1, side.launches)
            looks[side.name] = contents.look(side.launches, one)
        _judge_sketch(looks["contestant"], self.problem)
        return PhasePair(phases["baseline"], phases["contestant"], tuple(self._compare("timed", looks["contestant"])))

    def _phase(self, side: ServedSide, order: Sustain) -> SidePhase:
        """Time one side by the referee's clock, from the order to the device's idleness.

        The side has no say in its figure, nor in its number of launches. An order costs both sides the same 0.2 ms.
        """
        self._run(side)
        settling = self._repetitions(order.settle_s, side.spent_ms)
        self._run(side, settling)
        repetitions = self._repetitions(order.counted_s, side.spent_ms / settling)
        began_s = time.monotonic()
        self._run(side, repetitions)
        return SidePhase(began_s, time.monotonic(), side.launches * repetitions + 1)

    @staticmethod
    def _repetitions(seconds: float, block_ms: float) -> int:
        return max(1, round(seconds * 1e3 / block_ms))

    def _alone(self, order: Alone) -> BaselineAlone:
        """The baseline's time after the contestant's process ended, at the same rhythm of copies and blocks.

        It repeats rounds of the measurement, since a draw of lengths may take half as long again as another. All is as
        in those but the contestant. The watch over outputs slows down a graph of many short kernels. A placement of
        fewer sets may stay in the L2 cache, from one's refilling to its block.
        """
        sets = self._sets()
        if (contestant := self.sides.pop("contestant", None)) is not None:
            contestant.channel.close()
        side = self.sides["baseline"]
        contents = self._draw(sets)
        shares = []
        for seed, before_ms in self.dice.choices(self.baseline_rounds, k=2 * order.rounds):
            elapsed_ms, _ = self._block(side, contents, seed)
            shares.append(elapsed_ms / side.launches / before_ms)
            contents.look(side.launches, None)
        return BaselineAlone(median(shares))

    def _round(self, contents: Contents, placement: int, checked: int | None = None) -> "_Round":
        """One block of each side, in random order.

        Before each block all inputs are new and all outputs NaN, so nothing can be replayed. What decides the work of a
        launch, such as lengths, is new in each round, and the same for both sides. Comparing waits until both
        sides have run: work that heats the chip must not precede one side more often than the other.
        """
        taken_ms: dict[str, float] = {}
        looks: dict[str, Look] = {}
        late_ms: dict[str, tuple[float, float]] = {}
        seed = self._seed()
        for side in self.dice.sample(list(self.sides.values()), 2):
            elapsed_ms, completion = self._block(side, contents, seed)
            looks[side.name] = contents.look(side.launches, None if checked is None else min(checked, side.launches))
            taken_ms[side.name] = elapsed_ms / side.launches
            if completion is not None:
                side.note_the_end(completion)
            late_ms[side.name] = side.late_ms(elapsed_ms)
        look = looks["contestant"]
        _judge_sketch(look, self.problem)
        found = [] if checked is None else self._compare("timed", look)
        block = BlockPair(placement, taken_ms["baseline"], taken_ms["contestant"])
        return _Round(block, seed, *in_turns(late_ms["baseline"], late_ms["contestant"]), found)

    def _block(self, side: ServedSide, contents: Contents, seed: int) -> tuple[float, Completion | None]:
        """One block of new inputs: its ms, and the watch over its outputs, which a CPU has not."""
        self._refresh(side, contents, seed)
        completion = None if self.gpu.is_cpu else contents.completion(side.launches, side.launch_ms)
        return self._run(side, completion=completion), completion

    def _seed(self) -> int:
        return self.dice.getrandbits(SEED_BITS)

    def _refresh(self, side: ServedSide, contents: Contents, seed: int) -> None:
        time.sleep(self.rules.rest_s(max(each.launches * each.launch_ms for each in self.sides.values())))
        contents.refresh(seed)
        self._synchronize()
        side.renew()

    def _run(self, side: ServedSide, repetitions: int = 1, completion: Completion | None = None) -> float:
        self._synchronize()
        for each in self.sides.values():  # from here on the other side must stand still
            each.note_that_it_stands()
        elapsed_ms = side.run(repetitions, completion.look if completion is not None else None)
        contestant = side.name == "contestant"
        if completion is not None and contestant and not self.problem.overwrites:  # what is overwritten may stay
            completion.wait()
        idle_ms = self._until_idle_ms()
        side.spent_ms += idle_ms
        side.passed_ms += idle_ms if contestant else 0.0
        return elapsed_ms

    def _until_idle_ms(self) -> float:
        """How long the device takes to serve the referee; work that a side left behind delays it."""
        if self.gpu.is_cpu:
            return 0.0
        began = time.perf_counter()
        self.idle_probe.zero_()
        self._synchronize()
        return (time.perf_counter() - began) * 1e3

    def _launches(self, launch_ms: float, block_ms: float = BLOCK_MS) -> int:
        return max(1, min(self.capacity, round(block_ms / launch_ms)))

    def _sets(self) -> int:
        """One for each launch of a block, and one for its lead-in."""
        return max(side.launches for side in self.sides.values()) + 1

    def _draw(self, sets: int = 0) -> Contents:
        """A new placement of as many sets, or as both sides need, with both bound to it."""
        contents = self._place(sets or self._sets())
        contents.refresh()
        self._synchronize()
        for side in self.sides.values():
            side.prepare(contents.placement[: side.launches + 1], self.timer)
        return contents

    def _place(self, sets: int) -> Contents:
        span = draw_span(self.problem, sets, self.granule, self.arena.size, self.dice)
        placement = place(self.problem, sets, self.granule, span, self.dice)
        return Contents(self.problem, self.arena, placement, span, self.generator, self.dice)

    def _synchronize(self) -> None:
        if not self.gpu.is_cpu:
            torch.cuda.synchronize()


@dataclass(frozen=True, slots=True)
class _Round:
    """``late_ms`` is how much longer the contestant's block took by the referee's clock than by its own, or NaN."""

    block: BlockPair
    seed: int
    baseline_late_ms: float
    late_ms: float
    trials: list[Trial]


def _judge_sketch(look: Look, problem: Problem) -> None:
    """Raise Out if the sketched outputs of a block are not those of its inputs."""
    if look.off is None:
        raise Out(
            Cause.WRONG_RESULT,
            "a timed launch left an output unwritten, wrote values that are not finite, or wrote outside it",
        )
    if look.off > (limit := sketch_limit(problem)):
        by = "a random sum over its rows" if problem.has_sketch else "an output, as a share of its limit,"
        raise Out(Cause.WRONG_RESULT, f"a timed launch is wrong: {by} is off by {look.off:.3g}, over {limit:.3g}")


def _most_launches(problem: Problem, gpu: Gpu) -> int:
    """The launches in one block of the fastest kernel that the roofline allows."""
    floor_ms = gpu.floor_ms(problem)
    return round(BLOCK_MS / floor_ms) + 1 if floor_ms > 0 else CPU_LAUNCHES

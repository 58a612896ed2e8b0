"""The driver: it alone appends to the notebook, and gives each free GPU the next ladder."""

import os
import socket
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final

import msgspec
from rich.live import Live

from harness.boards import sustained
from harness.catalog import gpus
from harness.catalog.gpus import key_of
from harness.catalog.tree import Iteration
from harness.errors import ExitCode, InfrastructureError, printable
from harness.extras.fleet import cluster, pace, station, table
from harness.extras.fleet.assignment import Assignment, files_of, new_key, notebook_id, shapes_of
from harness.extras.fleet.cluster import Caller, Node, SeatFailed, SeatLost
from harness.extras.fleet.ladders import Environments, Ladder, choose, ladders
from harness.extras.fleet.pace import ChipPace
from harness.extras.fleet.seat import END_S, SAID, News
from harness.extras.fleet.station import Station
from harness.extras.fleet.table import FleetRow
from harness.judge.facts.problem import Problem
from harness.machine import files
from harness.machine.interruption import heed
from harness.machine.progress import console
from harness.records.environment import describe
from harness.records.results import Record
from harness.records.sustained import SustainedRecord
from harness.runs import gathering
from harness.runs.result_line import result_line
from harness.runs.run import Plan, Results, alone, reusable
from harness.runs.within import MINUTE_S

TICK_S: Final = 0.5
ANSWER_S: Final = 60.0  # for a seat that is being made: it imports the harness
PACE_S: Final = 180.0  # for a copy and a product, which import torch from a disk that may be cold
START_S: Final = 20.0  # of a ladder: with less time than that it would measure nothing
MOST_TRIES: Final = 3  # of one ladder: after a loss it goes to another GPU, at most twice
MOST_SEATS: Final = 3  # in one lane, of which the first two were lost
LAST_ROWS: Final = 2  # of a ladder: the next one imports and builds beside them
SUSTAINED: Final = "sustained.jsonl"
OMP: Final = "OMP_NUM_THREADS"  # which Ray sets
HARNESS: Final = ("-m", "harness")
SHAPE: Final = "{shape}"  # among the words
say: Final = partial(console.print, markup=False)  # a line that stays above the table


@dataclass(frozen=True, slots=True)
class Fleet:
    """Which GPUs work, and on what. ``words`` are the verb and its options; ``SHAPE`` stands for the problem's key.

    Without an address Ray is started on this host, for its first ``most`` GPUs of the key, or for all. With
    ``errands`` the plan's iterations are not judged: each of these problems is one command line of another verb. A
    problem is named as often as it is to give a record, for the table.
    """

    plan: Plan
    words: tuple[str, ...]
    address: str | None = None
    most: int | None = None
    slow: bool = False  # also GPUs that are hot, or slower than the others
    image: str | None = None  # in which each command line runs
    program: tuple[str, ...] = HARNESS  # of Python
    further: bool = False  # also where all is measured: the command line has more to do than measure iterations
    errands: tuple[Problem, ...] | None = None

    def words_for(self, shape_key: str, share_s: float | None = None) -> tuple[str, ...]:
        """The command line of a problem, with its share of the time where that is limited."""
        limit = () if share_s is None else (f"--within={share_s / MINUTE_S:.3f}",)
        return (*self.program, *(shape_key if word == SHAPE else word for word in self.words), *limit)


@dataclass(frozen=True, slots=True)
class FleetResults:
    """``sustained`` are the records of that regime which the fleet made; ``exit_code`` is the worst of all errands."""

    results: Results
    sustained: list[SustainedRecord]
    exit_code: ExitCode = ExitCode.PASSED


@dataclass(slots=True)
class SentLadder:
    """A ladder that a seat was asked to start, and the sizes of its files that the driver has."""

    ladder: Ladder
    key: str
    have: dict[str, int]
    began: bool = False
    made: int = 0  # records
    followed: bool = False  # another one was sent to begin early behind it


@dataclass(slots=True)
class Post:
    """A seat in use, what it is asked, the ladder that it measures, and the one that began early and waits for that."""

    caller: Caller
    station: Station
    row: FleetRow
    present: SentLadder | None = None
    early: SentLadder | None = None
    asked: Any = None

    @property
    def sent(self) -> list[SentLadder]:
        return [each for each in (self.early, self.present) if each is not None]


def run(fleet: Fleet) -> FleetResults:
    """Carry out the plan on all GPUs. Each outcome is in the notebook soon after it is measured.

    Raises InfrastructureError where no GPU can be used, or where a ladder was lost on every try.
    """
    cluster.require()
    place = "starting Ray on this host" if fleet.address is None else f"joining Ray at {fleet.address}"
    say(f"{place}; some seconds")
    with alone(fleet.plan.tree, fleet.plan.gpu, None), _ray(fleet), table.display() as live:
        driver = Driver(fleet, live)
        try:
            driver.take_seats()
            driver.work()
        finally:
            driver.leave()
        return driver.results()


def _ray(fleet: Fleet) -> AbstractContextManager[None]:
    gpu = fleet.plan.gpu
    if fleet.address is not None:
        return cluster.joined(fleet.address)
    if gpu.is_cpu:
        return cluster.local((), fleet.most or 1)
    found = [each for each in gpus.usable() if key_of(each.name) == gpu.key]
    return cluster.local(found[: fleet.most], 0)


class Driver:
    def __init__(self, fleet: Fleet, live: Live | None = None) -> None:
        self.fleet, self.plan, self.live = fleet, fleet.plan, live
        self.notebook = notebook_id(self.plan.tree, self.plan.gpu)
        self.posts: list[Post] = []
        self.waiting: list[Ladder] = []
        self.cut: list[Iteration] = []  # of ladders that had used up their time
        self.tries: Counter[str] = Counter()
        self.seats: Counter[tuple[str, int]] = Counter()
        self.failed: list[str] = []
        self.made: dict[str, Record] = {}  # by id
        self.sustained: list[SustainedRecord] = []
        self.reused: dict[str, Record] = {}
        self.environments: Environments = {}
        self.exit_code = ExitCode.PASSED

    # Seats

    def take_seats(self) -> None:
        """Find the GPUs, gather what earlier runs left on their hosts, and see what there is to do."""
        callers = [self._seat(node, lane) for node in self._nodes() for lane in range(node.seats)]
        asked = [(caller, caller.ask("station")) for caller in callers]
        root, gpu = self.plan.tree.root, self.plan.gpu
        environment = describe(root, gpu, None, station.OPERATOR) if self.fleet.image is None else None
        own = Station(socket.gethostname(), station.code_sha256(root), None, environment)
        stations = [(caller, self._station(caller, answer)) for caller, answer in asked]
        unfit = station.unfit(own, [each for _, each in stations])
        for host, why in station.off(time.time(), [each for _, each in stations]).items():
            say(f"{host}: {why}")
        unfit |= self._slow({caller: each for caller, each in stations if each not in unfit})
        for caller, each in stations:
            if each in unfit:
                say(f"{each.name} is not used: {unfit[each]}")
                cluster.give_up(caller)
            else:
                self._post(caller, each)
        if not self.posts:
            why = "see the lines above" if callers else "no host of the cluster has one"
            raise InfrastructureError(f"no GPU of key {self.plan.gpu.key} can be used; {why}")
        say(f"measuring on {', '.join(post.station.name for post in self.posts)}")
        for post in {post.caller.node.id: post for post in self.posts}.values():
            with suppress(SeatLost):
                self._gather_left(post.caller)
        self.environments = {
            post.station.chip: cache(partial(post.station.environment_of, root, gpu)) for post in self.posts
        }
        if self.fleet.errands is None:
            self._queue(self.plan.iterations)
        else:
            self.waiting = [Ladder(problem, records=number) for problem, number in Counter(self.fleet.errands).items()]

    def _slow(self, fit: dict[Caller, Station]) -> dict[Station, str]:
        """The GPUs to leave out for what a copy and a product show; with one GPU there is nothing to compare."""
        if self.plan.gpu.is_cpu or not self.plan.uses_device or len(fit) < 2:
            return {}
        found: dict[Station, str] = {}
        paces: dict[Station, ChipPace] = {}
        asked = {each: caller.ask("pace") for caller, each in fit.items()}
        cluster.ready(list(asked.values()), PACE_S)
        for each, answer in asked.items():
            try:
                paces[each] = cluster.answered(answer, 0)
            except SeatFailed as error:
                found[each] = f"a copy and a product fail there: {error}"
            except SeatLost as error:
                say(f"{each.name}: its pace is not known: {error}")
        slower = pace.slow(paces)
        if self.fleet.slow:
            for each, why in slower.items():
                say(f"{each.name} is used all the same: {why}")
            return found
        return found | {each: f"{why}; --slow-gpus uses it" for each, why in slower.items()}

    def _queue(self, iterations: tuple[Iteration, ...]) -> None:
        """Let the ladders wait that need a GPU; the others' records are known."""
        plan = replace(self.plan, iterations=iterations)
        waiting, done = ladders(plan, self.environments, further=self.fleet.further)
        self.waiting += waiting
        self._reuse(done)

    def _reuse(self, known: Iterable[Record]) -> None:
        for record in known:
            if record.id not in self.made and record.id not in self.reused:
                self.reused[record.id] = record
                say(result_line(record, self.plan.gpu, reused=True))

    def _seat(self, node: Node, lane: int) -> Caller:
        self.seats[node.id, lane] += 1
        plan, image = self.plan, self.fleet.image
        root, uses_device = plan.tree.root, plan.uses_device
        return cluster.seat(node, lane, plan.gpu, self.notebook, root, uses_device=uses_device, image=image)

    def _nodes(self) -> list[Node]:
        return cluster.nodes(self.plan.gpu, uses_device=self.plan.uses_device)

    def _station(self, caller: Caller, asked: Any) -> Station:
        try:
            found: Station = cluster.answered(asked, ANSWER_S)
        except SeatLost as error:
            return Station(caller.node.host, "", fault=f"it does not answer: {error}; is tilebench installed there?")
        return found

    def _post(self, caller: Caller, found: Station) -> None:
        label = f"{found.device.index}" if found.device else f"{caller.lane}"
        self.posts.append(Post(caller, found, FleetRow(found.host, label)))

    def _gather_left(self, caller: Caller) -> None:
        """Take what earlier runs and lost seats left on a host."""
        active = frozenset(each.key for post in self.posts for each in post.sent)
        for news in cluster.answered(caller.ask("left", active)):
            if taken := self._take(news):
                say(f"{caller.node.host}: {len(taken)} records of an earlier run gathered")
            cluster.answered(caller.ask("clear", news.key))

    # Work

    def work(self) -> None:
        """Until every ladder is done or given up, or the time is over."""
        while self._goes_on():
            heed()
            for post in self.posts:
                if post.present is None:
                    self._assign(post)
            busy = [post for post in self.posts if post.present]
            if not busy:
                names = ", ".join(each.shape_key for each in self.waiting)
                raise InfrastructureError(f"no GPU is left for {names}; what was measured is recorded")
            answers = cluster.ready([post.asked for post in busy], 2 * TICK_S)
            for post in busy:
                if post.asked in answers:
                    self._hear(post)
            if self.live is not None:
                self.live.update(table.drawn([post.row for post in self.posts], len(self.waiting), console.size))

    def _goes_on(self) -> bool:
        """Whether there is more to do, and time for it; ladders go on once all others had their share of the time."""
        if not self.waiting and self.cut:
            self._queue(tuple(self.cut))
            self.cut.clear()
        if not self.plan.deadline.has_room(START_S):
            self.waiting.clear()
        return bool(self.waiting) or any(post.present for post in self.posts)

    def _assign(self, post: Post) -> None:
        ladder = self._choose(post, self.waiting)
        if ladder is None and self.fleet.further and (other := self._with_early(post)) is not None:
            self._queue(self._take_back(other))  # its present ladder may have opponents to measure
            ladder = self._choose(post, self.waiting)
        if ladder is not None:
            self._send(post, ladder)

    def _choose(self, post: Post, waiting: Iterable[Ladder]) -> Ladder | None:
        return choose(waiting, post.station.chip, {each.station.chip for each in self.posts})

    def _with_early(self, post: Post) -> Post | None:
        """The post with the early ladder that a free one takes."""
        early = [(each.early.ladder, each) for each in self.posts if each.early is not None and each.early.began]
        chosen = self._choose(post, [ladder for ladder, _ in early])
        return next((each for ladder, each in early if ladder is chosen), None)

    def _next_early(self, post: Post, present: SentLadder) -> Ladder | None:
        """The ladder that begins beside the last rows of the present one, if one may; it shares no copy with it."""
        fleet, gpu = self.fleet, self.plan.gpu
        never = fleet.errands is not None or fleet.image is not None or self.plan.deadline.is_set
        if never or present.followed or post.row.left > LAST_ROWS:
            return None
        measured = shapes_of(gpu, present.ladder.problem)
        return self._choose(post, [each for each in self.waiting if not measured & shapes_of(gpu, each.problem)])

    def _send(self, post: Post, ladder: Ladder) -> None:
        """Ask a seat to start a ladder, at once or early behind its present one."""
        share_s = self.plan.deadline.share_s(len(self.waiting), len(self.posts))
        self.waiting.remove(ladder)
        plan, shape_key = self.plan, ladder.shape_key
        sent = files_of(plan.tree, plan.gpu, ladder.problem)
        words = self.fleet.words_for(shape_key, share_s)
        assignment = Assignment(new_key(shape_key), plan.gpu.key, shape_key, words, sent, {OMP: os.environ.get(OMP)})
        made = SentLadder(ladder, assignment.key, {name: len(content) for name, content in sent.items()})
        after = post.present
        if after is None:
            self._become_present(post, made)
        else:
            after.followed, post.early = True, made
        post.asked = post.caller.ask("start", assignment, after and after.key)

    def _become_present(self, post: Post, sent: SentLadder) -> None:
        """From now on it is a try of this ladder."""
        post.present, post.early = sent, None
        self.tries[sent.ladder.shape_key] += 1
        post.row.problem, post.row.done, post.row.last_line = sent.ladder.shape_key, 0, ""
        post.row.left = sent.ladder.left(post.station.chip)

    def _hear(self, post: Post) -> None:
        """Take a seat's answer, and ask again."""
        try:
            news: News | None = cluster.answered(post.asked)
        except SeatFailed as error:
            self._failed(post, str(error))
            return
        except SeatLost as error:
            self._lost(post, str(error))
            return
        for each in post.sent:
            each.began = True
        present = post.present
        assert present is not None
        if news is not None:
            self._take_sent(post, present, news)
        if news is not None and news.exit_code is not None:
            self._ended(post, news.exit_code)
            if post.early is not None:
                self._become_present(post, post.early)
        self._go_on(post)

    def _go_on(self, post: Post) -> None:
        """Ask for news of the present ladder, or first for the start of the next one."""
        present = post.present
        if present is not None and (ladder := self._next_early(post, present)) is not None:
            self._send(post, ladder)
        elif present is not None:
            post.asked = post.caller.ask("news", present.key, present.have, TICK_S)

    def _take_sent(self, post: Post, sent: SentLadder, news: News) -> None:
        taken = self._take(news)
        lines = (content.count(b"\n") for name, content in news.grown.items() if name.endswith(".jsonl"))
        made = len(taken) if self.fleet.errands is None else sum(lines)  # records
        sent.made += made
        post.row.done += made
        post.row.left = max(0, post.row.left - made)
        for name, content in news.grown.items():
            sent.have[name] = sent.have.get(name, 0) + len(content)
        said = [*map(printable, news.grown.get(SAID, b"").decode(errors="replace").split("\n"))]
        told = said if self.fleet.errands is not None else [result_line(record, self.plan.gpu) for record in taken]
        for line in filter(None, told):
            say(f"{post.station.name}: {line}")
        post.row.last_line = next(filter(None, reversed(said)), post.row.last_line)

    def _take(self, news: News) -> list[Record]:
        """Append what a tree gained to the notebook; returns the results that it lacked."""
        base = self.plan.tree.root / "tuning" / self.plan.gpu.key
        added: list[Record] = []
        for name, content in news.grown.items():
            path = base / name
            if name.endswith(".py"):
                if not path.exists():
                    files.put(path, content)
            elif name.endswith(".jsonl"):
                raws = gathering.add(path, content, self.plan.gpu.key)
                if name.startswith("tilelang/logs/") and path.name == "results.jsonl":
                    added += [msgspec.json.decode(raw, type=Record) for raw in raws]
                if path.name == SUSTAINED:
                    held = [msgspec.json.decode(raw, type=SustainedRecord) for raw in raws]
                    self.sustained += held
                    for each in held:
                        say(sustained.line(each))
            elif name != SAID:
                files.put(path, content)
        self.made |= {record.id: record for record in added}
        return added

    def _ended(self, post: Post, code: int) -> None:
        """A ladder's command line ended: it is done, or it goes to another GPU."""
        last, sent = post.row.last_line, self._free(post)
        ladder = sent.ladder
        with suppress(SeatLost):  # then its next answer says so
            cluster.answered(post.caller.ask("clear", sent.key), ANSWER_S)
        logs = self.plan.tree.folder(self.plan.gpu.key) / "logs" / ladder.shape_key
        gathering.write_companions(self.plan.tree, self.plan.gpu.key, logs.glob("*/results.jsonl"))
        environment = self.environments[post.station.chip]
        known = (reusable(self.plan, each, environment) for each in ladder.iterations)
        self._reuse(record for record in known if record is not None)
        why = f"{post.station.name}: {ladder.shape_key} ended with {code}: {last}"
        if self.fleet.errands is not None and code in (ExitCode.PASSED, ExitCode.REJECTED):
            say(f"{post.station.name}: {ladder.shape_key}: {ExitCode(code).name.lower()}")
            self.exit_code = max(self.exit_code, ExitCode(code))
            return
        complete = self._outcomes().keys() >= {each.key for each in ladder.iterations}
        if self.fleet.errands is None and code in (*ExitCode,) and complete:
            if code not in (ExitCode.PASSED, ExitCode.REJECTED):
                say(why)
            return
        if self.plan.deadline.is_set and code in (ExitCode.PASSED, ExitCode.REJECTED):
            self.tries[ladder.shape_key] -= 1
            self.cut += ladder.iterations if sent.made else ()
        elif code == ExitCode.USAGE:
            self._fail(why)
        elif code == ExitCode.INFRASTRUCTURE and not sent.made:
            self._leave_out(post)
            self._again(ladder, f"{why}; this GPU is left out")
        else:
            self._again(ladder, why)

    def _outcomes(self) -> dict[tuple[str, str, str], Record]:
        """The outcome of each iteration so far."""
        return {each.key: each for each in (*self.reused.values(), *self.made.values())}

    def _failed(self, post: Post, reason: str) -> None:
        """A seat lives, and its host has no room or no right to begin: that is no try of the ladder."""
        if post.early is not None and not post.early.began:
            say(f"{post.station.name}: {post.early.ladder.shape_key} cannot begin early: {reason}")
            self._queue(self._take_back(post))
            self._go_on(post)
            return
        sent = self._free(post)
        self._leave_out(post)
        ladder = sent.ladder
        self.tries[ladder.shape_key] -= not sent.began
        self._again(ladder, f"{post.station.name}: {ladder.shape_key} failed there: {reason}; this GPU is left out")

    def _lost(self, post: Post, reason: str) -> None:
        """A seat died. A new one in its lane gathers what the old one left."""
        ladder, early = self._free(post).ladder, post.early
        post.early = None
        self._leave_out(post)
        node, lane = post.caller.node, post.caller.lane
        if self.seats[node.id, lane] < MOST_SEATS and node.id in {each.id for each in self._nodes()}:
            caller = self._seat(node, lane)
            found = self._station(caller, caller.ask("station"))
            with suppress(SeatLost):
                if found.fault is None and found.chip in self.environments:
                    self._gather_left(caller)
                    self._post(caller, found)
                else:
                    say(f"{found.name} is not used: {found.fault or 'it was not used before'}")
                    cluster.give_up(caller)
        self._again(ladder, f"{post.station.name} was lost with {ladder.shape_key} ({reason})")
        self._queue(early.ladder.iterations if early else ())

    def _again(self, ladder: Ladder, why: str) -> None:
        if self.tries[ladder.shape_key] >= MOST_TRIES:
            self._fail(f"{why}; given up after {MOST_TRIES} tries")
            return
        say(f"{why}; it goes on")
        if self.fleet.errands is None:
            self._queue(ladder.iterations)
        else:
            self.waiting.append(ladder)

    def _fail(self, why: str) -> None:
        say(why)
        self.failed.append(why)

    def _free(self, post: Post) -> SentLadder:
        """Take a seat's present ladder from it."""
        sent, post.present, post.asked = post.present, None, None
        assert sent is not None
        post.row.problem = post.row.last_line = ""
        return sent

    def _leave_out(self, post: Post) -> None:
        self.posts.remove(post)
        back = self._take_back(post)
        cluster.give_up(post.caller)
        self._queue(back)

    def _take_back(self, post: Post) -> tuple[Iteration, ...]:
        """End the ladder that began early, and take what it has measured if its turn came meanwhile.

        Returns what to queue.
        """
        early, post.early = post.early, None
        if early is None:
            return ()
        post.caller.ask("stop", early.key)
        post.caller.ask("news", early.key, early.have, END_S)
        post.caller.ask("end", early.key)
        with suppress(SeatLost):
            self._take_sent(post, early, cluster.answered(post.caller.ask("news", early.key, early.have), ANSWER_S))
            cluster.answered(post.caller.ask("clear", early.key), ANSWER_S)
        return early.ladder.iterations

    # End

    def leave(self) -> None:
        """Stop what still runs, take what it has measured, and give up all seats."""
        busy = [(post, sent) for post in self.posts for sent in post.sent]
        for post, sent in busy:
            post.caller.ask("stop", sent.key)
        last = []
        until = time.monotonic() + END_S
        while busy and (left := until - time.monotonic()) > 0:
            asked = [post.caller.ask("news", sent.key, sent.have) for post, sent in busy]
            cluster.ready(asked, left)
            for (post, sent), answer in zip(list(busy), asked, strict=True):
                with suppress(SeatLost):
                    news = cluster.answered(answer, 0)
                    self._take_sent(post, sent, news)
                    if news.exit_code is None:
                        continue
                    last.append(post.caller.ask("clear", sent.key))
                busy.remove((post, sent))
            time.sleep(TICK_S / 5)
        last += [post.caller.ask("end", sent.key) for post, sent in busy]
        cluster.ready(last, 1.0)
        for post in self.posts:
            cluster.give_up(post.caller)

    def results(self) -> FleetResults:
        """One record an iteration. Raises InfrastructureError where a ladder has none for all of its iterations.

        What errands made is on the disk, and the verb that sent them shows it: their faults are in the exit code.
        """
        if self.failed and self.fleet.errands is None:
            raise InfrastructureError("; ".join(self.failed))
        if self.failed:
            self.exit_code = ExitCode.INFRASTRUCTURE
        outcomes = self._outcomes()
        records = [outcomes[each.key] for each in self.plan.iterations if each.key in outcomes]
        reused = sum(each.id in self.reused for each in records)
        left = len(self.plan.iterations) - len(records)
        return FleetResults(Results(records, reused, left, self.plan.misplaced), self.sustained, self.exit_code)

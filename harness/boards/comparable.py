"""Which records stand side by side on a board: the newest of each iteration, of one chip, of the same libraries."""

from collections.abc import Iterable, Iterator

from harness.boards.board import same_code
from harness.boards.held import Tried
from harness.catalog import gpus
from harness.catalog.tree import Iteration, Tree
from harness.judge.fault_attribution import is_retried
from harness.records.base import Cause, Stage, Status
from harness.records.results import Record

Group = list[tuple[Iteration, Record]]


def groups(tree: Tree, tried: Tried) -> list[Group]:
    """A record of each iteration in each environment, from as few chips as there are, the newest environment first."""
    of_key: dict[tuple[str, ...], Tried] = {}
    for iteration, records in tried:
        for key, found in repeated(tree, records).items():
            of_key.setdefault(key, []).append((iteration, found))
    alike = (part for group in of_key.values() for part in _by_libraries(_of_one_chip(group)))
    return sorted(alike, key=lambda group: max(record.recorded_at for _, record in group), reverse=True)


def repeated(tree: Tree, records: list[Record]) -> dict[tuple[str, ...], list[Record]]:
    """By rank key the newest outcome, and before it the measurements that it repeats."""
    return {
        key: [*(each for each in records if each.measurement and _repeats(tree, each, last)), last]
        for key, last in latest(records).items()
    }


def of_chip(home: str, records: list[Record]) -> Record:
    """The newest record, which is the last; in place of a measurement the newest one of the chip ``home``."""
    *_, last = records
    if last.measurement is None:
        return last
    return next((each for each in reversed(records) if each.environment.device_uuid == home), last)


def newest_first(group: Group) -> list[Record]:
    return sorted((record for _, record in group), key=lambda record: record.recorded_at, reverse=True)


def latest(records: Iterable[Record]) -> dict[tuple[str, ...], Record]:
    """The newest outcome of each rank key, by the order in the file, since clocks jump.

    A later verification or a fault of the machine does not hide a measurement of the same source. Nor does a single
    rejection that the next run tries again.
    """
    found: dict[tuple[str, ...], Record] = {}
    tried: set[tuple[str, ...]] = set()
    for record in records:
        key = record.environment.rank_key
        held = found.get(key)
        only_verified = record.status is Status.PASSED and record.stage is Stage.VERIFY
        fault = record.cause is Cause.REFEREE
        in_doubt = not fault and key not in tried and is_retried(record.cause, gpus.find(record.gpu))
        repeats = (
            held is not None
            and record.source_sha256 == held.source_sha256
            and (
                (fault and held.cause is not Cause.REFEREE)
                or (held.measurement is not None and (only_verified or in_doubt))
            )
        )
        if not fault:  # as if it had not been tried
            (tried.add if in_doubt else tried.discard)(key)
        if not repeats:
            found[key] = record
    return found


def _repeats(tree: Tree, one: Record, other: Record) -> bool:
    """Whether both have the same judge, environment and code, on any chip."""
    return one.environment.ranks_with(other.environment) and same_code(tree, other, one, one.environment.tilelang)


def _of_one_chip(group: Tried) -> Group:
    """One record of each iteration, of the chip that measured most of them; of equals, of the last that measured."""
    times: dict[str, list[str]] = {}
    for _, records in group:
        for chip, time in {each.environment.device_uuid: each.recorded_at for each in records}.items():
            times.setdefault(chip, []).append(time)
    home = max(times, key=lambda chip: (len(times[chip]), max(times[chip])))
    return [(iteration, of_chip(home, records)) for iteration, records in group]


def _by_libraries(group: Group) -> Iterator[Group]:
    """Split a group where records are known to have loaded different libraries.

    A record that does not say what it loaded stays with the newest.
    """
    while group:
        alike: list[Record] = []
        for record in newest_first(group):
            if all(record.environment.loads_alike(each.environment) for each in alike):
                alike.append(record)
        taken = {id(record) for record in alike}
        yield [entry for entry in group if id(entry[1]) in taken]
        group = [entry for entry in group if id(entry[1]) not in taken]

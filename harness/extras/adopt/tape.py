"""A tape of what a script computes: each call of torch and each launch, with the values that it reads and writes.

A value is one state of a storage: whatever writes to a storage makes its next value. Tensors are places in values, so
views need no record, and a slice of the tape is all that a value follows from.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

import numpy
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry

from harness.extras.adopt.replay import drawn

HEAVY_FLOPS: Final = 1e10  # a call of more work is not computed: it gives zeros
LARGE: Final = 1 << 24  # elements; nor is one that reads or makes a larger tensor
# Words without a sign, which no operator has: an operator holds their bits.
HELD: Final = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
MOST_BYTES: Final = 1 << 20  # of data that a text holds
_INDEXING: Final = (torch.ops.aten.index.Tensor,)  # the result has a size of its own where a mask indexes


class NotAdopted(Exception):
    """No operator comes of a script; the message says why."""


class Value(NamedTuple):
    """One state of a storage."""

    storage: int
    version: int


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """A tensor as a place in a value."""

    value: Value
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @property
    def elements(self) -> int:
        return torch.Size(self.size).numel()

    def same_form(self, other: "TensorPlace") -> bool:
        mine, its = ((each.dtype, each.size, each.stride, each.offset) for each in (self, other))
        return mine == its


@dataclass(frozen=True, slots=True, eq=False)
class TapedCall:
    """One call: tensors in its arguments are places. ``made`` are new storages in the order of its results."""

    number: int
    function: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    reads: tuple[Value, ...]
    made: tuple[TensorPlace | None, ...]
    written: tuple[Value, ...]  # states of storages that were there before
    flops: int = 0

    @property
    def random(self) -> bool:
        return torch.Tag.nondeterministic_seeded in getattr(self.function, "tags", ())

    @property
    def writes(self) -> Iterator[Value]:
        yield from (each.value for each in self.made if each is not None)
        yield from self.written


@dataclass
class Tape(TorchDispatchMode):
    """Records while it is entered. ``bases`` has each storage's first tensor; ``data`` what no call has made."""

    calls: list[TapedCall] = field(default_factory=list)
    bases: dict[int, TensorPlace] = field(default_factory=dict)
    data: dict[int, torch.Tensor] = field(default_factory=dict)
    makers: dict[Value, TapedCall] = field(default_factory=dict)
    observed: set[Value] = field(default_factory=set)  # Python has seen their numbers
    shaping: set[Value] = field(default_factory=set)  # their numbers gave a tensor its size
    _ids: dict[StorageWeakRef, int] = field(default_factory=dict)
    _versions: list[int] = field(default_factory=list)
    paused: bool = False

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @contextmanager
    def pause(self) -> Iterator[None]:
        before, self.paused = self.paused, True
        try:
            yield
        finally:
            self.paused = before

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = dict(kwargs or {})
        if self.paused or func.is_view or torch.Tag.inplace_view in func.tags or func is torch.ops.aten.detach.default:
            return func(*args, **keywords)
        reads: list[Value] = []
        places, named = tree_map_only(torch.Tensor, lambda each: self._read(each, reads), (args, keywords))
        if func is torch.ops.aten._local_scalar_dense.default:
            self.observed.update(reads)
            return func(*args, **keywords)
        if torch.Tag.dynamic_output_shape in func.tags:
            masks = (torch.bool, torch.uint8)
            shaping = (each for each in places_in(places) if func not in _INDEXING or each.dtype in masks)
            self.shaping.update(each.value for each in shaping)
        flops, compute = _flops(func, args, keywords), func
        if torch.Tag.nondeterministic_seeded in func.tags:
            for given in (keywords, named):
                given.update({each: None for each in given if each == "generator"})
            compute = partial(drawn, func, len(self.calls), torch.device("cpu"))
        writes = list(self._mutated(func, args, keywords))
        large = any(each.elements > LARGE for each in places_in([places, named]))
        skipped = flops > HEAVY_FLOPS or large
        made = _zeros(func, args, keywords, writes) if skipped else compute(*args, **keywords)
        self.add(func, places, named, reads, made, writes, flops)
        return made

    def add(
        self,
        function: Any,
        arguments: Any,
        keywords: dict[str, Any],
        reads: list[Value],
        made: Any,
        mutated: Iterable[torch.Tensor],
        flops: int = 0,
    ) -> None:
        """Append a call; what it ``made`` and is not new is one of its arguments again."""
        written = tuple(self._next(self._storage(each)) for each in {id(each): each for each in mutated}.values())
        results = made if isinstance(made, list | tuple) else [made]
        found = tuple(self._new(each) if isinstance(each, torch.Tensor) else None for each in results)
        call = TapedCall(len(self.calls), function, tuple(arguments), keywords, tuple(reads), found, written, flops)
        self.calls.append(call)
        self.makers |= dict.fromkeys(call.writes, call)

    @property
    def launches(self) -> list[TapedCall]:
        """The calls of something else than torch."""
        return [each for each in self.calls if not isinstance(each.function, torch._ops.OpOverload)]

    def launch(self, function: Any, given: Any, made: Any, mutated: Iterable[torch.Tensor]) -> None:
        """Append a call of something else than torch."""
        reads: list[Value] = []
        places = tree_map_only(torch.Tensor, lambda each: self._read(each, reads), given)
        self.add(function, places, {}, reads, [] if made is None else made, mutated)

    def place(self, tensor: torch.Tensor) -> TensorPlace:
        """Where a tensor lies; a storage that no call has made is data."""
        number = self._storage(tensor)
        value = Value(number, self._versions[number])
        size, stride = tuple(tensor.size()), tuple(tensor.stride())
        return TensorPlace(value, tensor.dtype, size, stride, int(tensor.storage_offset()))

    def _read(self, tensor: torch.Tensor, reads: list[Value]) -> TensorPlace:
        place = self.place(tensor)
        reads.append(place.value)
        return place

    def _storage(self, tensor: torch.Tensor) -> int:
        reference = StorageWeakRef(tensor.untyped_storage())
        if reference not in self._ids:
            number = self._ids[reference] = len(self._versions)
            self._versions.append(0)
            with self.pause():
                whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
                self.data[number] = whole.clone() if whole.nbytes <= MOST_BYTES else whole
            self.bases[number] = TensorPlace(Value(number, 0), tensor.dtype, tuple(whole.shape), (1,), 0)
        return self._ids[reference]

    def _new(self, tensor: torch.Tensor) -> TensorPlace | None:
        reference = StorageWeakRef(tensor.untyped_storage())
        if reference in self._ids:
            return None
        number = self._ids[reference] = len(self._versions)
        self._versions.append(0)
        self.bases[number] = place = self.place(tensor)
        return place

    def _next(self, storage: int) -> Value:
        self._versions[storage] += 1
        return Value(storage, self._versions[storage])

    def _mutated(self, func: Any, args: Any, keywords: dict[str, Any]) -> Iterator[torch.Tensor]:
        for position, each in enumerate(func._schema.arguments):
            if each.alias_info is not None and each.alias_info.is_write:
                given = args[position] if position < len(args) else keywords.get(each.name)
                parts = given if isinstance(given, list | tuple) else [given]
                yield from (part for part in parts if part is not None)

    # What follows from what

    def slice(self, values: Iterable[Value], known: frozenset[Value] = frozenset()) -> list[TapedCall]:
        """The calls that values follow from, in order, where the known ones are given."""
        waiting, seen = list(values), set[Value]()
        found: dict[int, TapedCall] = {}
        while waiting:
            value = waiting.pop()
            if value in seen or value in known:
                continue
            seen.add(value)
            call = self.makers.get(value)
            if call is None:
                continue
            found[call.number] = call
            waiting += call.reads
        return [found[number] for number in sorted(found)]

    def following_from(self, values: Iterable[Value], calls: Iterable[TapedCall]) -> set[TapedCall]:
        """Those of some calls, in order, that follow from some values."""
        known, found = set(values), set[TapedCall]()
        for call in calls:
            if not known.isdisjoint(call.reads):
                known.update(call.writes)
                found.add(call)
        return found

    def following(self, calls: Iterable[TapedCall]) -> set[Value]:
        """The values that follow from some calls."""
        made = {value for call in calls for value in call.writes}
        return made.union(*(call.writes for call in self.following_from(made, self.calls)))


def held_dtype(place: TensorPlace) -> str:
    """The dtype with which an operator holds a tensor."""
    return str(HELD.get(place.dtype, place.dtype)).removeprefix("torch.")


def places_in(given: Any) -> Iterator[TensorPlace]:
    """The places among arguments."""
    return (each for each in tree_leaves(given) if isinstance(each, TensorPlace))


def _on_meta(func: Any, args: Any, keywords: dict[str, Any]) -> tuple[list[Any], dict[str, Any], Any]:
    given, named = tree_map_only(torch.Tensor, lambda each: each.to("meta"), (list(args), keywords))
    if "device" in named:
        named["device"] = "meta"
    with torch.utils._python_dispatch._disable_current_modes():
        return given, named, func(*given, **named)


def _flops(func: Any, args: Any, keywords: dict[str, Any]) -> int:
    count = flop_registry.get(func._overloadpacket)
    if count is None:
        return 0
    given, named, made = _on_meta(func, args, keywords)
    return int(count(*given, **named, out_val=made))


def _zeros(func: Any, args: Any, keywords: dict[str, Any], written: list[torch.Tensor]) -> Any:
    """Zeros in the form of a call's results, in memory that nothing touches."""
    if written:
        return written[0]
    made = _on_meta(func, args, keywords)[2]
    return tree_map_only(torch.Tensor, _untouched, made)


def _untouched(like: torch.Tensor) -> torch.Tensor:
    length = sum((size - 1) * stride for size, stride in zip(like.shape, like.stride(), strict=True)) + 1
    memory = torch.from_numpy(numpy.zeros(max(length, 1) * like.itemsize, dtype=numpy.uint8)).view(like.dtype)
    return memory.as_strided(like.shape, like.stride())

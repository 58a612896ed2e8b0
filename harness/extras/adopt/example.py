"""An example: what a recording tells of one kernel, its inputs, its outputs, and what the script compares them with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import torch

from harness.extras.adopt.launch import READ, WRITE, TapedLaunch
from harness.extras.adopt.recording import Recording
from harness.extras.adopt.tape import NotAdopted, Tape, TapedCall, TensorPlace, Value, held_dtype, places_in
from harness.judge.child.launches import PLAIN_OPERATORS
from harness.judge.facts.dtypes import DTYPE_BYTES, NARROW_FLOATS

COPYING: Final = ("aten.clone.default", "aten._to_copy.default")
MOST_CALLS: Final = 20_000  # of a reference
SUMMING: Final = ("sum", "mean", "softmax", "logsumexp", "var_mean", "cumsum", "norm")


@dataclass(frozen=True, slots=True)
class Compared:
    """One output: where it lies when the kernel has written it, and what the script expects there."""

    output: TensorPlace  # a whole tensor
    actual: TensorPlace  # its view that is compared
    expected: TensorPlace


@dataclass(frozen=True)
class Example:
    """The calls that make the outputs, most often one launch. ``inputs`` are tensors that no kernel has made.

    ``overwritten`` says of each output which input's memory it takes. ``workspaces`` are parameters of the one launch
    that it writes, and nothing compares.
    """

    tape: Tape
    calls: tuple[TapedCall, ...]
    inputs: tuple[TensorPlace, ...]
    outputs: tuple[Compared, ...]
    overwritten: tuple[int | None, ...]
    workspaces: tuple[TensorPlace, ...]

    @property
    def launch(self) -> TapedCall | None:
        """The one call, where it is a launch and the kernel pins all sizes."""
        return self.calls[0] if _pins(self.calls) else None

    @property
    def order(self) -> list[int]:
        """The launch's parameters as a program has them: inputs, outputs with memory of their own, workspaces."""
        assert self.launch is not None
        given = self.launch.function.in_order(self.launch.arguments, self.launch.made)
        storages = [each.value.storage for each in given]
        outputs = [each.output for each, place in zip(self.outputs, self.overwritten, strict=True) if place is None]
        return [storages.index(each.value.storage) for each in (*self.inputs, *outputs, *self.workspaces)]

    @cached_property
    def known(self) -> dict[Value, tuple[int, tuple[TensorPlace, ...]]]:
        """The values that an input tells: itself, and what it is a copy of, by the copies in between."""
        found: dict[Value, tuple[int, tuple[TensorPlace, ...]]] = {}
        for position, place in enumerate(self.inputs):
            copies: tuple[TensorPlace, ...] = ()
            while place.elements == (base := self.tape.bases[place.value.storage]).elements and _is_dense(base):
                found.setdefault(place.value, (position, copies))
                call = self.tape.makers.get(place.value)
                if call is None or not _is_copy(call) or not _keeps_kind(call):
                    break
                place = next(places_in(call.arguments))
                copies = (*copies, place)
        return found

    @cached_property
    def reference(self) -> list[TapedCall]:
        """What the expected tensors follow from, the inputs given."""
        return self.tape.slice((each.expected.value for each in self.outputs), frozenset(self.known))

    @cached_property
    def fixed(self) -> frozenset[int]:
        """The inputs with the script's own numbers alone: the reference, Python or other indices go by them.

        An input that the reference does not read must agree with those that share its random numbers.
        """
        tape, after = self.tape, self.tape.following(self.tape.launches)
        random = [{each.number for each in self.made(place) if each.random} for place in self.inputs]
        read = {each.number for each in (*self.reference, *tape.slice(tape.shaping - after)) if each.random}
        seen = {each.number for each in tape.slice(tape.observed - after) if each.random}
        used = {position for value, (position, _) in self.known.items() if value in self.needed}
        found = set()
        for position, place in enumerate(self.inputs):
            others = set().union(*(each for number, each in enumerate(random) if number != position))
            exact = not place.dtype.is_floating_point
            if random[position] & read or (exact and random[position] & (others | seen)):
                found.add(position)
            if position not in used and random[position] & others:
                found |= {number for number, each in enumerate(random) if each & random[position]}
        return frozenset(found)

    @cached_property
    def needed(self) -> set[Value]:
        """The values that the reference reads or is compared with."""
        return {each for call in self.reference for each in call.reads} | {each.expected.value for each in self.outputs}

    def made(self, place: TensorPlace) -> list[TapedCall]:
        """The calls that an input follows from."""
        return self.tape.slice([place.value])

    @cached_property
    def computing(self) -> list[str]:
        """The calls of torch among its launches that compute, which the judge lets no iteration make."""
        names = (_name(each) for each in self.calls if not isinstance(each.function, TapedLaunch))
        return sorted({*names} - PLAIN_OPERATORS)

    @property
    def flops(self) -> int:
        return max(sum(each.flops for each in self.reference), sum(each.output.elements for each in self.outputs))

    @property
    def terms(self) -> int:
        """The most terms that a call of the reference sums."""
        return max(map(_terms, self.reference), default=1)

    @property
    def roundings(self) -> int:
        """The calls of the reference that round to 16 bits, of which four count."""
        made = [each for call in self.reference for each in call.made if each is not None]
        return min(max(1, sum(each.dtype in (torch.float16, torch.bfloat16) for each in made)), 4)

    @property
    def reference_bytes(self) -> int:
        return sum(each.elements * 8 for call in self.reference for each in call.made if each is not None)


def found_in(recording: Recording) -> Example:
    """The first kernel that a script compares with something else, as it made it; raises NotAdopted."""
    tape, launches = recording.tape, recording.tape.launches
    if not launches:
        raise NotAdopted(recording.failed or "it launches no kernel of TileLang")
    after = tape.following(launches)
    pairs = (*recording.pairs, *recording.by_hand())
    compared = list(_compared(tape, pairs, after))
    if not compared:
        if any(each.value in after for pair in pairs for each in pair):
            raise NotAdopted("it compares no whole output of a kernel with what none has made")
        raise NotAdopted(recording.failed or "it compares what its kernel makes with nothing")
    makers = dict.fromkeys(tape.makers[each.output.value] for each in compared)
    groups = ([each for each in compared if tape.makers[each.output.value] is maker] for maker in makers)
    examples = [_example(tape, group, after) for group in groups]
    example = next((each for each in examples if not each.computing), examples[0])
    _require(example)
    return example


def _compared(tape: Tape, pairs: Sequence[tuple[TensorPlace, TensorPlace]], after: set[Value]) -> Iterator[Compared]:
    """The pairs of which one follows from a launch and the other from none, each output once."""
    seen = set[Value]()
    for pair in pairs:
        actual, expected = sorted(pair, key=lambda each: each.value not in after)
        if (expected.value in after) or actual.value not in after or actual.size != expected.size:
            continue
        while _is_copy(call := tape.makers[actual.value]) and actual.same_form(tape.bases[actual.value.storage]):
            actual = next(places_in(call.arguments))
        output = tape.bases[actual.value.storage]
        if actual.elements != output.elements or actual.dtype != output.dtype or not _is_dense(output):
            continue
        if actual.value not in seen:
            seen.add(actual.value)
            whole = TensorPlace(actual.value, output.dtype, output.size, output.stride, output.offset)
            yield Compared(whole, actual, expected)


def _example(tape: Tape, group: Sequence[Compared], after: set[Value]) -> Example:
    made = [each.output.value for each in group]
    calls = [each for each in tape.slice(made) if not after.isdisjoint(each.writes)]
    if _pins(calls):
        return _of_launch(tape, calls[0], group)
    written = {value.storage for call in calls for value in call.written}
    read = [each for call in calls for each in _places(call) if each.value not in after]
    calls = tape.slice(made, frozenset(each.value for each in read if each.value.storage not in written))
    own = {value for call in calls for value in call.writes}
    inputs = {each.value: each for call in calls for each in _places(call) if each.value not in own}
    return Example(tape, tuple(calls), tuple(inputs.values()), tuple(group), (None,) * len(group), ())


def _of_launch(tape: Tape, call: TapedCall, group: Sequence[Compared]) -> Example:
    """One launch: what it writes and is not compared is a workspace, and an output that it also reads is an input."""
    launch, outputs = call.function, {each.output.value.storage for each in group}
    inputs, workspaces = list[TensorPlace](), list[TensorPlace]()
    for position, place in zip(launch.inputs, call.arguments, strict=True):
        use = launch.uses.get(position, READ)
        if not use & WRITE or (use & READ and place.value.storage in outputs):
            inputs.append(place)
        elif place.value.storage not in outputs:
            workspaces.append(place)
    workspaces += [each for each in call.made if each is not None and each.value.storage not in outputs]
    storages = [each.value.storage for each in inputs]
    places = [each.output.value.storage for each in group]
    overwritten = tuple(storages.index(each) if each in storages else None for each in places)
    return Example(tape, (call,), tuple(inputs), tuple(group), overwritten, tuple(workspaces))


def _pins(calls: Sequence[TapedCall]) -> bool:
    """Whether the calls are one launch of different tensors, in the very forms that the kernel declares.

    A kernel has another form where a launch tells its sizes, and where its words are packed.
    """
    if len(calls) > 1 or not isinstance(calls[0].function, TapedLaunch):
        return False
    given = calls[0].function.in_order(calls[0].arguments, calls[0].made)
    tensors = [each for each in given if isinstance(each, TensorPlace)]
    forms = tuple((each.size, held_dtype(each)) for each in tensors)
    return len({each.value for each in tensors}) == len(given) and forms == calls[0].function.signature


def _places(call: TapedCall) -> list[TensorPlace]:
    return list(places_in([call.arguments, call.keywords]))


def _require(example: Example) -> None:
    """Raises NotAdopted for what no operator says."""
    for place in (*example.inputs, *(each.output for each in example.outputs)):
        if held_dtype(place) not in DTYPE_BYTES:
            raise NotAdopted(f"a tensor is {place.dtype}, which no operator has")
    for each in example.outputs:
        if held_dtype(each.output) in NARROW_FLOATS:
            raise NotAdopted(f"an output is {each.output.dtype}, and no limit tells a wrong one from a rounded one")
        if any(isinstance(call.function, TapedLaunch) for call in example.reference):
            raise NotAdopted("its reference takes what a kernel has made")
    if not example.inputs:
        raise NotAdopted("its kernel takes no tensor")
    if example.computing:
        names = ", ".join(example.computing[:4])
        raise NotAdopted(f"torch computes a part of what it compares ({names}), and a kernel is judged by its own work")
    if len(example.reference) > MOST_CALLS:
        raise NotAdopted(f"its reference is {len(example.reference)} calls of torch, over {MOST_CALLS}")


def _is_copy(call: TapedCall) -> bool:
    return str(call.function) in COPYING


def _name(call: TapedCall) -> str:
    return str(call.function).split(".")[1]


def _keeps_kind(call: TapedCall) -> bool:
    """Whether a copy keeps floats floats, or the dtype."""
    source, made = next(places_in(call.arguments)), call.made[0]
    return made is not None and (
        source.dtype == made.dtype or (source.dtype.is_floating_point and made.dtype.is_floating_point)
    )


def _is_dense(place: TensorPlace) -> bool:
    return torch.empty_strided(place.size, place.stride, device="meta").is_contiguous()


def _terms(call: TapedCall) -> int:
    places = list(places_in(call.arguments))
    name = _name(call) if not isinstance(call.function, TapedLaunch) else ""
    if name in ("mm", "bmm", "addmm", "baddbmm", "mv", "addmv"):
        return int(places[-2].size[-1])
    if name.strip("_") in SUMMING and call.made and call.made[0] is not None and places:
        return max(
            places[0].elements // max(call.made[0].elements, 1),
            max(places[0].size, default=1) if "softmax" in name else 1,
        )
    if name == "convolution":
        size = torch.Size(places[1].size)
        return size.numel() // size[0]
    return 1

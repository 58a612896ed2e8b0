"""Calls of a tape as Python text."""

import base64
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.extras.adopt.launch import TapedLaunch
from harness.extras.adopt.tape import MOST_BYTES, NotAdopted, Tape, TapedCall, TensorPlace, Value

INDENT = "    "


@dataclass
class Writer:
    """Writes calls as statements. ``kind`` names a function of dtypes, which may widen them."""

    tape: Tape
    kind: str = ""
    names: dict[int, str] = field(default_factory=dict)  # of storages, as their base has them

    def statements(self, calls: Sequence[TapedCall], kept: Iterable[TensorPlace]) -> Iterator[str]:
        """The calls; what they read and no call makes is data. All but ``kept`` goes when it was last used."""
        last = {value.storage: call for call in calls for value in (*call.reads, *call.writes)}
        stays = {each.value.storage for each in kept}
        mutated = {each.storage for call in calls for each in call.written}
        for call in calls:
            yield from self.held(call.reads)
            yield from self._launch(call) if isinstance(call.function, TapedLaunch) else self._call(call)
            for each in filter(None, call.made):
                if each.value.storage in mutated:  # what writes to a copy of it would be lost
                    name = self.names[each.value.storage]
                    yield f"{name} = laid_out({name}, {each.stride})"
            used = {value.storage for value in (*call.reads, *call.writes)} - stays
            if gone := sorted(self.names[each] for each in used if last[each] is call and each in self.names):
                yield f"del {', '.join(gone)}"
        yield from self.held(each.value for each in kept)

    def place(self, place: TensorPlace) -> str:
        base, name = self.tape.bases[place.value.storage], self.names[place.value.storage]
        if place.same_form(base):
            return name
        dtype = f", {place.dtype}" if place.dtype != base.dtype else ""
        return f"part({name}, {base.stride}, {place.size}, {place.stride}, {place.offset}{dtype})"

    def dtype(self, dtype: torch.dtype) -> str:
        return f"{self.kind}({dtype})" if self.kind and dtype.is_floating_point else str(dtype)

    def held(self, values: Iterable[Value]) -> Iterator[str]:
        """Of some values those that the script holds itself."""
        for value in dict.fromkeys(values):
            if value.storage in self.names or value.storage not in self.tape.data:
                continue
            held = self.tape.data[value.storage]
            if held.nbytes > MOST_BYTES:
                raise NotAdopted(f"it reads {held.nbytes >> 20} MiB that no call of torch has made")
            words = base64.b85encode(zlib.compress(held.view(torch.uint8).numpy().tobytes())).decode()
            kept = f"data({words!r}, {held.dtype}, device)"
            yield f"{self._named(value.storage)} = {kept}.to({self.dtype(held.dtype)})"

    def _call(self, call: TapedCall) -> Iterator[str]:
        named = {**call.keywords, **({"device": torch.device("cpu")} if "device" in call.keywords else {})}
        given = [*map(self.expression, call.arguments)]
        given += [f"{name}={self.expression(each)}" for name, each in named.items()]
        results = ", ".join(self._named(each.value.storage) if each is not None else "_" for each in call.made)
        function = f"torch.ops.{call.function}"
        if call.random:
            function, given = "drawn", [function, f"seed + {call.number}", "device", *given]
        yield f"{f'{results} = ' if any(call.made) else ''}{function}({', '.join(given)})"

    def _launch(self, call: TapedCall) -> Iterator[str]:
        for each in filter(None, call.made):
            made = f"torch.empty({each.size}, dtype={each.dtype}, device=device)"
            yield f"{self._named(each.value.storage)} = {made}"
        results = [self.place(each) for each in call.made if each is not None]
        given = call.function.in_order(list(map(self.expression, call.arguments)), results)
        yield f"kernels[{call.number}]({', '.join(given)})"

    def _named(self, storage: int) -> str:
        return self.names.setdefault(storage, f"v{storage}")

    def expression(self, given: Any) -> str:
        """An argument: a tensor, a dtype, a device, a number, or a list of them."""
        if isinstance(given, TensorPlace):
            return self.place(given)
        if isinstance(given, torch.dtype):
            return self.dtype(given)
        if isinstance(given, torch.device):
            return "device"
        if isinstance(given, list | tuple):
            return f"[{', '.join(map(self.expression, given))}]"
        if isinstance(given, float):
            return f"float('{given}')"
        if given is None or isinstance(given, bool | int | str | torch.layout | torch.memory_format):
            return repr(given)
        raise NotAdopted(f"a call is given {type(given).__name__}")


def function(head: str, body: Iterable[str], result: str) -> str:
    """A function; torch is imported inside, since the parent imports operators without it."""
    lines = "".join(f"{INDENT}{line}\n" for line in body)
    return f"def {head}:\n{INDENT}import torch\n\n{lines}{INDENT}return {result}\n\n"

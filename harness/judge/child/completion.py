"""The time of a block by its outputs: the copy engine reads a few of their bytes while the kernels run.

A side answers when it likes, so its answer is no clock. The timed part of a block lies between the last writes of the
lead-in and of the last launch. On an H200 a copy of 32 words took 11 µs. Blocks took as long with such copies beside
them as without, within 0.15%; both sides have them.
"""

import math
import random
import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final, Protocol

import torch

from harness.judge.child.cuda_calls import checked

WORDS: Final = 256  # of the outputs of the lead-in, of the launch after it, and of the last one
OTHERS: Final = 8  # launches between them, with one word each
LONGEST_LOOK_MS: Final = 0.25  # a referee that was held up longer cannot say when the lead-in ended
SETTLED_MS: Final = 0.1  # without a write
LONGEST_WAIT_S: Final = 0.05
_WORD_BYTES: Final = 8
Rows = tuple[int, int, int, int]  # device address, pitch in bytes, bytes of a row, rows


class Copies(Protocol):
    """Copies the same rows of memory at each ``read``."""

    def read(self) -> bytes: ...


class DeviceCopies:
    """Rows of device memory, copied on a stream of their own."""

    def __init__(self, rows: Sequence[Rows]) -> None:
        from cuda.bindings import runtime

        self._runtime: Any = runtime
        self._stream = torch.cuda.Stream()
        # Where the host's memory is not page-locked, a copy waits for the device.
        self._host = torch.empty(_bytes(rows), dtype=torch.uint8, pin_memory=True)
        starts = accumulate((_bytes([each]) for each in rows), initial=self._host.data_ptr())
        to_host = runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
        self._arguments = [
            (start, width, address, pitch, width, count, to_host, self._stream.cuda_stream)
            for start, (address, pitch, width, count) in zip(starts, rows, strict=False)
        ]

    def read(self) -> bytes:
        for each in self._arguments:
            checked(self._runtime.cudaMemcpy2DAsync(*each))
        checked(self._runtime.cudaStreamSynchronize(self._stream.cuda_stream))
        return self._host.numpy().tobytes()


class Completion:
    """Watches the outputs of one block: ``launches`` holds those of each launch in order, the lead-in first.

    ``launch_ms`` is about how long a launch takes.
    """

    def __init__(
        self,
        launches: Sequence[Sequence[torch.Tensor]],
        launch_ms: float,
        dice: random.Random,
        copies: Callable[[Sequence[Rows]], Copies] = DeviceCopies,
    ) -> None:
        between = launches[1 + math.ceil(LONGEST_LOOK_MS / launch_ms) : -1]
        some = dice.sample(between, min(OTHERS, len(between)))
        self._between = copies([_rows(dice.choice(each), 1, dice) for each in some])
        words = WORDS // len(launches[0])
        last, follower, lead_in = ([_rows(each, words, dice) for each in launches[place]] for place in (-1, 1, 0))
        # The copy engine may mix up the order of what it is asked for at once.
        self._later, self._earlier = copies([*last, *follower]), copies(lead_in)
        self._bytes_of_last = _bytes(last)
        self._last, self._next, self._lead_in = map(_Watched, self._read())
        self._before = self._at_lead_in = self._between.read()
        self._at_last: bytes | None = None
        self._looked_s = time.perf_counter()
        self._held_up = self._too_late = False

    def look(self) -> None:
        """Note the time if the lead-in or the last launch has written since the last look."""
        followed = self._next.wrote_s is not None  # by an earlier look, so the lead-in had ended by then
        watched = (self._last, self._next, self._lead_in)
        ended, _, led_in = (each.look(seen) for each, seen in zip(watched, self._read(), strict=True))
        if led_in:
            self._too_late |= followed
            self._at_lead_in = self._between.read()
        if ended and self._at_last is None:
            self._at_last = self._between.read()
        now_s = time.perf_counter()
        if led_in:
            self._held_up = (now_s - self._looked_s) * 1e3 > LONGEST_LOOK_MS
        self._looked_s = now_s

    def wait(self) -> None:
        """Look until the last launch has written everywhere, for the last time as it seems; an answer may be early.

        What still changes afterwards is found by one more look, when the outputs have been read.
        """
        until_s = time.perf_counter() + LONGEST_WAIT_S
        while not self._last.settled() and time.perf_counter() < until_s:
            self.look()

    @property
    def ended_s(self) -> float:
        """The last launch's last write, by ``time.perf_counter``; 0 if there is none."""
        return self._last.wrote_s or 0.0

    @property
    def timed_ms(self) -> float:
        """From the lead-in's last write to the last launch's; NaN where it is unknown.

        That is where a side writes elsewhere, as some baselines do, or where the referee was held up.
        """
        if self._held_up or self._lead_in.wrote_s is None or self._last.wrote_s is None:
            return math.nan
        return (self._last.wrote_s - self._lead_in.wrote_s) * 1e3

    def _read(self) -> tuple[bytes, bytes, bytes]:
        """Of the last launch, of that after the lead-in, and then of the lead-in."""
        later = self._later.read()
        return later[: self._bytes_of_last], later[self._bytes_of_last :], self._earlier.read()

    @property
    def out_of_order(self) -> bool:
        """After the block: whether a launch wrote before the lead-in had ended, or after the last launch began to.

        Those that may have begun between the lead-in's end and the look that found it are not asked.
        """
        ahead = self._too_late or (not self._held_up and self._at_lead_in != self._before)
        return ahead or (self._at_last is not None and self._at_last != self._between.read())


class _Watched:
    """Words of one launch's outputs, and when they changed last."""

    def __init__(self, seen: bytes) -> None:
        self._before = self._seen = seen
        self.wrote_s: float | None = None

    def look(self, seen: bytes) -> bool:
        if seen == self._seen:
            return False
        self._seen, self.wrote_s = seen, time.perf_counter()
        return True

    def settled(self) -> bool:
        if self.wrote_s is None or (time.perf_counter() - self.wrote_s) * 1e3 < SETTLED_MS:
            return False
        return all(now != before for now, before in zip(_words(self._seen), _words(self._before), strict=True))


def _words(seen: bytes) -> list[bytes]:
    return [seen[start : start + _WORD_BYTES] for start in range(0, len(seen), _WORD_BYTES)]


def _rows(output: torch.Tensor, most: int, dice: random.Random) -> Rows:
    """One word of each of at most so many equal parts of an output, at a random place of the part."""
    size = output.numel() * output.itemsize
    width = min(_WORD_BYTES, size)
    count = min(most, size // width)
    words = size // count // width
    return output.data_ptr() + dice.randrange(words) * width, words * width, width, count


def _bytes(rows: Sequence[Rows]) -> int:
    return sum(width * count for _, _, width, count in rows)

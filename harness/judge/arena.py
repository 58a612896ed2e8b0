"""The arena: memory that referee and contestant both map, in which every tensor of a measurement lies."""

import fcntl
import math
import mmap
import os
import random
from dataclasses import dataclass
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any, Final

import torch

from harness.problem import DTYPE_BYTES, Problem

Shape = tuple[int, ...]
Set = tuple[int, ...]  # byte offsets of one set's inputs and, last, its output

LARGE_BYTES: Final = 1 << 20
LARGE_GRANULE: Final = 2 << 20  # a page of the device: what the allocator gives to large tensors
SMALL_GRANULE: Final = 512  # what the allocator gives to small ones, which share a page
SLACK: Final = 1.25
GAPS: Final = 64  # granules that are free however few the tensors are
MOST_PADDING: Final = 64  # pages


def set_bytes(problem: Problem) -> int:
    """Bytes that one set takes in the arena, each tensor rounded up to its granule."""
    return sum(_rounded(length, _granule(length)) for length in _lengths(problem))


def arena_bytes(problem: Problem, sets: int) -> int:
    """Bytes for this many sets, with room to place them anew."""
    small, large = _kinds(problem, sets)
    room = _room(small, SMALL_GRANULE)
    return _room([*large, room], LARGE_GRANULE) if large else room


def place(problem: Problem, sets: int, size: int, dice: random.Random) -> tuple[Set, ...]:
    """Draw a placement: all tensors of all sets in random order, with random gaps, inside ``size`` bytes.

    Small tensors lie together, as the allocator has them. With a page for each, a scalar that every SM reads first made
    a launch of 34 µs 9 µs longer after each switch between two processes, which costs the SMs what they knew of pages.
    """
    small, large = _kinds(problem, sets)
    pages: list[int] = []
    start, room = 0, size
    if large:
        room = _room(small, SMALL_GRANULE)
        *pages, start = _scatter([*large, room], LARGE_GRANULE, size, dice)
    wide, narrow = iter(pages), iter(_scatter(small, SMALL_GRANULE, room, dice, start))
    return tuple(
        tuple(next(narrow if length < LARGE_BYTES else wide) for length in _lengths(problem)) for _ in range(sets)
    )


def _lengths(problem: Problem) -> list[int]:
    return [math.prod(shape) * DTYPE_BYTES[dtype] for shape, dtype in problem.tensors]


def _granule(length: int) -> int:
    return SMALL_GRANULE if length < LARGE_BYTES else LARGE_GRANULE


def _rounded(length: int, granule: int) -> int:
    return -(-length // granule) * granule


def _kinds(problem: Problem, sets: int) -> tuple[list[int], list[int]]:
    """The lengths in bytes of all small and of all large tensors, set by set."""
    lengths = _lengths(problem) * sets
    return [each for each in lengths if each < LARGE_BYTES], [each for each in lengths if each >= LARGE_BYTES]


def _room(lengths: list[int], granule: int) -> int:
    """Bytes in which tensors of these lengths can be scattered."""
    return int(sum(_rounded(length, granule) for length in lengths) * SLACK) + GAPS * granule


def _scatter(lengths: list[int], granule: int, size: int, dice: random.Random, start: int = 0) -> list[int]:
    """Offsets from ``start`` on for tensors of these lengths, in random order, with random gaps."""
    granules = [_rounded(length, granule) // granule for length in lengths]
    free = size // granule - sum(granules)
    cuts = sorted(dice.randint(0, free) for _ in lengths)
    offsets = [0] * len(lengths)
    used = 0
    for position, cut in zip(dice.sample(range(len(lengths)), len(lengths)), cuts, strict=True):
        offsets[position] = start + (used + cut) * granule
        used += granules[position]
    return offsets


@dataclass(slots=True)
class Arena:
    """Shared memory of ``size`` bytes; tensors made from it have storages of their own."""

    size: int
    device: torch.device

    def tensor(self, offset: int, shape: Shape, dtype: str) -> torch.Tensor:
        raise NotImplementedError

    def send(self, connection: Connection, pid: int) -> None:
        """Let the process at the other end map the same memory."""
        raise NotImplementedError

    def sets(self, problem: Problem, placement: tuple[Set, ...]) -> list[list[torch.Tensor]]:
        return [
            [self.tensor(offset, shape, dtype) for offset, (shape, dtype) in zip(each, problem.tensors, strict=True)]
            for each in placement
        ]


@dataclass(slots=True)
class HostArena(Arena):
    """A sealed memfd: no name that could be left behind, and nobody can shrink it under the other side."""

    descriptor: int
    memory: mmap.mmap

    @classmethod
    def create(cls, size: int) -> "HostArena":
        descriptor = os.memfd_create("tilebench", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return cls(size, torch.device("cpu"), descriptor, mmap.mmap(descriptor, size))

    @classmethod
    def receive(cls, connection: Connection, size: int) -> "HostArena":
        descriptor = reduction.recv_handle(connection)
        return cls(size, torch.device("cpu"), descriptor, mmap.mmap(descriptor, size))

    def send(self, connection: Connection, pid: int) -> None:
        connection.send_bytes(self.size.to_bytes(8, "little"))
        reduction.send_handle(connection, self.descriptor, pid)

    def tensor(self, offset: int, shape: Shape, dtype: str) -> torch.Tensor:
        flat = torch.frombuffer(self.memory, dtype=getattr(torch, dtype), count=math.prod(shape), offset=offset)
        return flat.view(shape)


@dataclass(slots=True)
class CudaArena(Arena):
    """Device memory of its own allocation, shared by CUDA IPC (torch's allocator would keep what a crash left)."""

    pointer: int

    @classmethod
    def create(cls, size: int) -> "CudaArena":
        from cuda.bindings import runtime

        torch.cuda.init()
        (pointer,) = _checked(runtime.cudaMalloc(size))
        return cls(size, torch.device("cuda", torch.cuda.current_device()), int(pointer))

    @classmethod
    def receive(cls, connection: Connection, size: int) -> "CudaArena":
        from cuda.bindings import runtime

        torch.cuda.init()
        # Where a process's code and small buffers lie decides a thousandth; it must not be the same place each time.
        _checked(runtime.cudaMalloc((1 + random.SystemRandom().randrange(MOST_PADDING)) * LARGE_GRANULE))
        torch.empty(1, device="cuda")
        handle = runtime.cudaIpcMemHandle_t()
        handle.reserved = connection.recv_bytes(64)
        flags = runtime.cudaIpcMemLazyEnablePeerAccess
        (pointer,) = _checked(runtime.cudaIpcOpenMemHandle(handle, flags))
        return cls(size, torch.device("cuda", torch.cuda.current_device()), int(pointer))

    def send(self, connection: Connection, pid: int) -> None:
        from cuda.bindings import runtime

        (handle,) = _checked(runtime.cudaIpcGetMemHandle(self.pointer))
        connection.send_bytes(self.size.to_bytes(8, "little"))
        connection.send_bytes(bytes(handle.reserved))

    def tensor(self, offset: int, shape: Shape, dtype: str) -> torch.Tensor:
        kind = getattr(torch, dtype)
        span = _Span(self.pointer + offset, math.prod(shape) * kind.itemsize)
        return torch.as_tensor(span, device=self.device).view(kind).view(shape)


def create_arena(size: int, *, cpu: bool) -> Arena:
    return HostArena.create(size) if cpu else CudaArena.create(size)


def receive_arena(connection: Connection, *, cpu: bool) -> Arena:
    size = int.from_bytes(connection.recv_bytes(8), "little")
    return HostArena.receive(connection, size) if cpu else CudaArena.receive(connection, size)


class _Span:
    """Raw device memory, in the form that ``torch.as_tensor`` takes over without a copy."""

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
            "strides": None,
        }


def _checked(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    error, *values = answer
    if int(error) != 0:
        raise RuntimeError(f"CUDA: {error.name}")
    return tuple(values)

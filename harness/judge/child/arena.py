"""The arena: memory that the referee and both sides map; it holds every tensor of a measurement."""

import fcntl
import math
import mmap
import os
import random
from dataclasses import dataclass
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Final

import torch

from harness.judge.child.cuda_calls import checked
from harness.judge.facts.problem import DTYPE_BYTES, Problem

Shape = tuple[int, ...]
Span = tuple[int, int]  # byte offsets of its begin and its end
Set = tuple[int, ...]  # byte offsets of one set's inputs and, last, its output

LARGE_BYTES: Final = 1 << 20
PAGE: Final = 2 << 20  # of the device
LARGE_GRANULE: Final = PAGE  # torch's allocator aligns large tensors to this
SMALL_GRANULE: Final = 512  # and small tensors to this
SLACK: Final = 1.25
MOST_PADDING: Final = 64  # granules


def granule(problem: Problem, *, cpu: bool) -> int:
    """What offsets are multiples of. A host aligns no large tensor further, and each granule between is filled anew."""
    largest = max(math.prod(shape) * DTYPE_BYTES[dtype] for shape, dtype in problem.tensors)
    return LARGE_GRANULE if largest >= LARGE_BYTES and not cpu else SMALL_GRANULE


def set_bytes(problem: Problem, unit: int) -> int:
    """Bytes of one set in the arena, with each tensor rounded up to the granule, ``unit``."""
    return sum(-(-math.prod(shape) * DTYPE_BYTES[dtype] // unit) * unit for shape, dtype in problem.tensors)


def arena_bytes(problem: Problem, sets: int, unit: int) -> int:
    """Bytes for this many sets, with room to place them anew, in whole pages.

    On an H200 an arena that ended within a page seemed to get small pages: after each switch between two processes, the
    first touch made a copy 26% slower and a product of 1024 cubed 17% slower.
    """
    size = int(set_bytes(problem, unit) * sets * SLACK) + 64 * unit
    return -(-size // PAGE) * PAGE


def draw_span(problem: Problem, sets: int, unit: int, size: int, dice: random.Random) -> Span:
    """Somewhere in an arena of ``size`` bytes, as much as this many sets need: what is filled is paid for."""
    length = min(size, arena_bytes(problem, sets, unit))
    start = dice.randrange(0, size - length + 1, unit)
    return start, start + length


def place(problem: Problem, sets: int, unit: int, span: Span, dice: random.Random) -> tuple[Set, ...]:
    """Draw a placement: all tensors of all sets in random order with random gaps, inside a span of the arena."""
    start, end = span
    lengths = [-(-math.prod(shape) * DTYPE_BYTES[dtype] // unit) for shape, dtype in problem.tensors]
    order = [(each, tensor) for each in range(sets) for tensor in range(len(lengths))]
    dice.shuffle(order)
    free = (end - start) // unit - sets * sum(lengths)
    cuts = sorted(dice.randint(0, free) for _ in order)
    offsets: list[list[int]] = [[0] * len(lengths) for _ in range(sets)]
    used = 0
    for (each, tensor), cut in zip(order, cuts, strict=True):
        offsets[each][tensor] = start + (used + cut) * unit
        used += lengths[tensor]
    return tuple(tuple(each) for each in offsets)


@dataclass(slots=True)
class Arena:
    """Shared memory of ``size`` bytes; each tensor made from it has its own storage."""

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
    """A sealed memfd: it leaves no name behind, and no process can shrink it under the other side."""

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
    """Device memory by cudaMalloc, shared by CUDA IPC; torch's allocator would keep what a crash left."""

    pointer: int

    @classmethod
    def create(cls, size: int) -> "CudaArena":
        from cuda.bindings import runtime

        torch.cuda.init()
        (pointer,) = checked(runtime.cudaMalloc(size))
        return cls(size, torch.device("cuda", torch.cuda.current_device()), int(pointer))

    @classmethod
    def receive(cls, connection: Connection, size: int) -> "CudaArena":
        from cuda.bindings import runtime

        torch.cuda.init()
        # The place of a process's code and small buffers changes a time by 0.1%, so it is drawn anew each time.
        checked(runtime.cudaMalloc((1 + random.SystemRandom().randrange(MOST_PADDING)) * LARGE_GRANULE))
        torch.empty(1, device="cuda")
        handle = runtime.cudaIpcMemHandle_t()
        handle.reserved = connection.recv_bytes(64)
        flags = runtime.cudaIpcMemLazyEnablePeerAccess
        (pointer,) = checked(runtime.cudaIpcOpenMemHandle(handle, flags))
        return cls(size, torch.device("cuda", torch.cuda.current_device()), int(pointer))

    def send(self, connection: Connection, pid: int) -> None:
        from cuda.bindings import runtime

        (handle,) = checked(runtime.cudaIpcGetMemHandle(self.pointer))
        connection.send_bytes(self.size.to_bytes(8, "little"))
        connection.send_bytes(bytes(handle.reserved))

    def tensor(self, offset: int, shape: Shape, dtype: str) -> torch.Tensor:
        kind = getattr(torch, dtype)
        span = _DeviceMemory(self.pointer + offset, math.prod(shape) * kind.itemsize)
        return torch.as_tensor(span, device=self.device).view(kind).view(shape)


def create_arena(size: int, *, cpu: bool) -> Arena:
    return HostArena.create(size) if cpu else CudaArena.create(size)


def receive_arena(connection: Connection, *, cpu: bool) -> Arena:
    size = int.from_bytes(connection.recv_bytes(8), "little")
    return HostArena.receive(connection, size) if cpu else CudaArena.receive(connection, size)


class _DeviceMemory:
    """Raw device memory in the form that ``torch.as_tensor`` takes without a copy."""

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
            "strides": None,
        }

"""Where a kernel's shared buffers lie by chance makes no other kernel of it between two environments."""

import pytest
from tilelang.contrib import nvcc

from harness.judge.child.capture import capturing
from harness.judge.child.shared_buffers import placed_by_use

GENERATED = """
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* buffer = ((void*)((char*)buf_dyn_shmem + 0));
  void* buffer_1 = ((void*)((char*)buf_dyn_shmem + 8192));
  void* keys = ((void*)((char*)buf_dyn_shmem + 16384));
  store(buffer, 64);
  store(buffer_1, 128);
"""
# The same, where the two buffers have each other's address.
SWAPPED = GENERATED.replace("(buffer,", "(other,").replace("(buffer_1,", "(buffer,").replace("(other,", "(buffer_1,")


def test_where_buffers_lie_by_chance_is_no_difference() -> None:
    assert SWAPPED != GENERATED
    assert placed_by_use(SWAPPED) == placed_by_use(GENERATED) == GENERATED
    for other in (
        GENERATED.replace("64", "128"),
        GENERATED.replace("(buffer_1", "(buffer"),
        GENERATED.replace("8192", "4096"),
        GENERATED.replace("(buffer,", "(keys,"),
    ):
        assert placed_by_use(other) != GENERATED


def test_buffers_of_several_sizes_lie_by_their_use() -> None:
    text = GENERATED.replace("+ 8192", "+ 4096")
    swapped = (
        GENERATED.replace("+ 8192", "+ 12288")
        .replace("(buffer, 64", "(buffer_1, 64")
        .replace("(buffer_1, 128", "(buffer, 128")
    )
    assert placed_by_use(swapped) == placed_by_use(text) == text
    for other in (
        text.replace("+ 4096", "+ 4104"),  # moved, they would not be aligned
        text.replace("void* keys", "void* buffer_2"),  # the size of the last is not known
        text.replace("(buffer_1", "(buffer"),  # one is not used
    ):
        assert placed_by_use(other) == other


def test_the_compiler_is_given_the_placed_source(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    def compile_cuda(code: str, *_: object, **__: object) -> bytes:
        given.append(code)
        return b"cubin"

    monkeypatch.setattr(nvcc, "compile_cuda", compile_cuda)
    with capturing(placed_by_use) as made:
        nvcc.compile_cuda(SWAPPED)
    with capturing():
        nvcc.compile_cuda(SWAPPED)
    assert given == [GENERATED, SWAPPED]
    assert [each.source for each in made] == [SWAPPED]  # by which TileLang's kernel is found

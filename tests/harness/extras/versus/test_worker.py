"""The machine code that two environments share: one compilation for one source, command and set of headers.

Where a kernel's buffers lie by chance makes no second source of it.
"""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.extras.versus.worker import HeardCompiler, headers_sha256, placed_by_use, taken
from harness.judge.facts.problem import parse_shape_key
from kernels.attention_backward import backward

NVCC = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
echo run >> {runs}
echo "ptxas info: 32 registers"
cat $3 > $2
"""

GENERATED = """
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* buffer = ((void*)((char*)buf_dyn_shmem + 0));
  void* buffer_1 = ((void*)((char*)buf_dyn_shmem + 8192));
  void* keys = ((void*)((char*)buf_dyn_shmem + 16384));
  store(buffer, 64);
  store(buffer_1, 128);
"""


class Environment:
    """An environment's TileLang, and a compiler that both have."""

    def __init__(self, folder: Path, name: str, header: str) -> None:
        self.package, self.nvcc, self.folder = folder / name, folder / "nvcc", folder / "codes"
        self.package.mkdir()
        (self.package / "gemm.h").write_text(header)
        self.folder.mkdir(exist_ok=True)
        self.nvcc.write_text(NVCC.format(runs=folder / "runs"))
        self.nvcc.chmod(0o755)

    def compile(self, monkeypatch: pytest.MonkeyPatch, source: str, *flags: str) -> tuple[str, str]:
        """What nvcc made and said."""
        for name, value in {
            "folder": self.folder,
            "package": self.package,
            "headers": headers_sha256(self.package),
        }.items():
            monkeypatch.setattr(HeardCompiler, name, value)
        (self.package / "kernel.cu").write_text(source)
        out = self.package / "kernel.cubin"
        words = [str(self.nvcc), f"-I{self.package}", *flags, "-o", str(out), str(self.package / "kernel.cu")]
        HeardCompiler(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).communicate()
        return out.read_text(), HeardCompiler.said


def test_two_environments_share_what_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = Environment(tmp_path, "old", "1"), Environment(tmp_path, "new", "1")
    later = Environment(tmp_path, "later", "2")
    runs = tmp_path / "runs"
    made = ("source", "ptxas info: 32 registers\n")
    assert [each.compile(monkeypatch, "source") for each in (old, new, old)] == [made] * 3
    assert runs.read_text().count("run") == 1
    for count, (where, words) in enumerate([(new, ["other"]), (new, ["source", "-O1"]), (later, ["source"])], start=2):
        assert where.compile(monkeypatch, *words)[0] == words[0]
        assert runs.read_text().count("run") == count
    assert len(list(old.folder.iterdir())) == 4


def test_what_does_not_compile_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Environment(tmp_path, "old", "1")
    old.nvcc.write_text("#!/bin/sh\necho error\nexit 1\n")
    with pytest.raises(FileNotFoundError):
        old.compile(monkeypatch, "source")
    assert HeardCompiler.said == "error\n"
    assert not list(old.folder.iterdir())


def test_where_buffers_lie_by_chance_is_no_difference() -> None:
    swapped = (
        GENERATED.replace("(buffer,", "(other,").replace("(buffer_1,", "(buffer,").replace("(other,", "(buffer_1,")
    )
    assert swapped != GENERATED
    assert placed_by_use(swapped) == placed_by_use(GENERATED) == GENERATED
    for other in (
        GENERATED.replace("64", "128"),
        GENERATED.replace("(buffer_1", "(buffer"),
        GENERATED.replace("8192", "4096"),
        GENERATED.replace("(buffer,", "(keys,"),
    ):
        assert placed_by_use(other) != GENERATED


def test_buffers_of_another_kernel_lie_where_they_are() -> None:
    kernel = 'extern "C" __global__ void {}() {{' + GENERATED + "}}\n"
    first, second = kernel.format("one"), kernel.format("two").replace("+ 8192", "+ 4096")
    assert placed_by_use(first + second) == first + second


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


def test_a_tensor_that_no_device_function_takes_makes_no_difference() -> None:
    function = backward(parse_shape_key("attentionbackward_bf16fp32_1x1x256x128")).prim_func
    names = [function.buffer_map[each].name for each in function.params]
    kernel = SimpleNamespace(artifact=SimpleNamespace(params=names), prim_func=function)
    source = f"void main_kernel({', '.join(f'float* {name}' for name in names[:-1])})"
    assert names[-1] == "counters"
    assert taken(kernel, source) == names[:-1]
    assert taken(kernel, source.replace("* Q", " Q_desc") + " counters;") == names
    assert taken(SimpleNamespace(artifact=kernel.artifact), source) == names

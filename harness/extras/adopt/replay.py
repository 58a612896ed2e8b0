"""What an adopted example computes with: places in tensors, random numbers, and the script's own data.

``tilebench adopt`` puts this file beside the operators and beside the kernels that it writes.
"""

import base64
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from harness.judge.facts.dtypes import DTYPE_BYTES
from harness.judge.facts.fills import Fill
from harness.judge.facts.sizes import Shape, Values

if TYPE_CHECKING:
    import torch

Make = Callable[[int, Any], Any]  # (seed, device) -> what the script's own calls of torch give


@dataclass(frozen=True, slots=True)
class Replayed(Fill):
    """What the script's own calls of torch put into an input; of one seed where ``fixed``."""

    make: Make
    fixed: bool = False
    whole: ClassVar[bool] = True
    takes: ClassVar[frozenset[str]] = frozenset(DTYPE_BYTES)

    def draw(self, shape: Shape, dtype: str, values: Values, dice: Any) -> Any:
        """One draw; raises ValueError where another seed gives another form."""
        import torch

        if self.fixed:
            return fixed(self.make, dice.device).clone()
        seed = int(torch.randint(1 << 40, (), generator=dice, device=dice.device))
        made = _drawn(self.make, seed, dice.device)
        if (tuple(made.shape), made.dtype) != (shape, getattr(torch, dtype)):
            raise ValueError(f"a draw is {made.dtype}{list(made.shape)}, and the input {dtype}{list(shape)}")
        return made


@cache
def fixed(make: Make, device: Any = "cpu") -> Any:
    """What the script had, by its own seeds on the CPU. It stays on the device: a CUDA graph cannot copy it there."""
    import torch

    made = _drawn(make, 0, "cpu")
    return made.to(device) if isinstance(made, torch.Tensor) else tuple(each.to(device) for each in made)


def _drawn(make: Make, seed: int, device: Any) -> Any:
    """Leaves the device's own numbers as they were."""
    import torch

    where = torch.device(device)
    generator = _generator_of(where)
    state = generator.get_state()
    try:
        return make(seed, where)
    finally:
        generator.set_state(state)


def drawn(call: Any, seed: int, device: Any, /, *given: Any, **named: Any) -> Any:
    """What a random call of torch gives by a seed of its own.

    A CPU draws normal numbers in float64. Those that it draws in a narrower dtype depend on its vector instructions.
    """
    import torch

    _generator_of(device).manual_seed(seed)  # torch's own function takes 0.06 ms, for all devices
    name = str(call).split(".")[1]
    if device.type != "cpu" or name not in ("randn", "randn_like", "normal_"):
        return call(*given, **named)
    if name == "normal_":
        tensor, *rest = given
        return tensor.copy_(call(torch.empty(tensor.shape, dtype=torch.float64), *rest, **named))
    dtype = named.get("dtype") or (given[0].dtype if name == "randn_like" else torch.get_default_dtype())
    return call(*given, **{**named, "dtype": torch.float64}).to(dtype)


def _generator_of(device: Any) -> Any:
    import torch

    if device.type != "cuda":
        return torch.default_generator
    torch.cuda.init()
    return torch.cuda.default_generators[device.index or 0]


def part(
    tensor: Any, layout: Shape, size: Shape, stride: Shape, offset: int = 0, dtype: "torch.dtype | None" = None
) -> Any:
    """Another view of the memory that a tensor has with strides ``layout``; a copy if it has others."""
    tensor = laid_out(tensor, layout)
    if dtype is None or dtype == tensor.dtype:
        return tensor.as_strided(size, stride, tensor.storage_offset() + offset)
    flat = tensor.as_strided((tensor.numel(),), (1,)).view(dtype)
    return flat.as_strided(size, stride, flat.storage_offset() + offset)


def laid_out(tensor: Any, layout: Shape) -> Any:
    """The tensor with these strides: where torch chooses others here than it did for the script, a copy."""
    strides = zip(tensor.stride(), layout, tensor.shape, strict=True)
    if all(mine == wanted for mine, wanted, length in strides if length > 1):
        return tensor
    import torch

    return torch.empty_strided(tensor.shape, layout, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def whole(tensor: Any, size: Shape, stride: Shape, offset: int, like: Shape) -> Any:
    """The contiguous tensor of shape ``like`` of which this one is such a view."""
    found = tensor.new_zeros(like)
    found.as_strided(size, stride, offset).copy_(tensor)
    return found


def data(words: str, dtype: "torch.dtype", device: Any) -> Any:
    """A copy of numbers that the script holds itself."""
    return _data(words, dtype, device).clone()


@cache
def _data(words: str, dtype: "torch.dtype", device: Any) -> Any:
    import torch

    return torch.frombuffer(bytearray(zlib.decompress(base64.b85decode(words))), dtype=dtype).to(device)


def as_it_is(dtype: "torch.dtype") -> "torch.dtype":
    """The script's own precision."""
    return dtype


def at_least(wide: "torch.dtype") -> "Callable[[torch.dtype], torch.dtype]":
    """A wide dtype in the place of each float of 16 bits or more."""
    return lambda dtype: wide if dtype.is_floating_point and dtype.itemsize > 1 else dtype

"""The description of an operator: its tensors by name, work, fills, tolerances and reference."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.judge.facts.dtypes import DTYPE_BYTES, DTYPES, FLOATS, NARROW_FLOATS, TOKENS
from harness.judge.facts.fills import Fill, Normal
from harness.judge.facts.sizes import Size, axes, names_in

Times = Callable[[Any, Any], Any]  # an accurate matrix-vector product
Sketch = Callable[[Sequence[Any], Any, Any, Times], tuple[Any, Any]]

OUTPUT_SCALE: Final = 0.25  # standard deviation of an output, which absolute limits refer to
OF_KEY: Final = ("input", "accumulator", "output")  # in a dtype's place: that of the shape key


@dataclass(frozen=True, slots=True)
class Input:
    """One input: its row-major shape as a list of sizes, its dtype, and how it is filled."""

    shape: str
    dtype: str = "input"
    fill: Fill = field(default_factory=Normal)


@dataclass(frozen=True, slots=True)
class Output:
    """One output, and what its limits follow from.

    ``terms`` counts the products that one element sums. ``roundings`` counts the values of 16 bits or less between
    inputs and output, the output included. ``scale`` is the deviation of right values, which the absolute limit
    follows. A ``skewed`` output has a few values far beyond it, and their limit follows the value. In an ``uneven``
    one some rows are larger, and their limit follows the row. An integer has no limits: it must be right. ``inplace``
    names the input that this output overwrites, and takes its shape and dtype from.
    """

    shape: str = ""
    dtype: str = "output"
    terms: Size = 1
    roundings: int = 1
    scale: Size = OUTPUT_SCALE
    skewed: bool = False
    uneven: bool = False
    inplace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One operator.

    ``dims`` names the dimensions in the shape key's order, ``scalars`` the values that a key may set, with their
    defaults. Sizes are numbers or expressions in both, such as ``"2 * M * N * K"``. ``inputs`` and ``outputs`` are in
    the kernel's order. ``flops`` are the useful operations. ``bytes`` are those that a launch must move, where these
    are not each tensor once. ``multiples`` names pairs of dimensions; the first is a multiple of the second.
    ``requires`` are conditions such as ``"K <= N"``. ``dtypes`` are the shape key's tokens for inputs.

    ``rows`` names the inputs with a row for each row of the output, which follows from no other row of them, nor from
    its place.
    ``corner_power`` of two is how much smaller and larger than random values such a row may be.

    ``reference(*inputs)`` takes torch tensors, floats in one wide dtype, and returns the outputs in order. Scalars and
    dimensions reach it as the keywords that it has.
    ``fill_exact(inputs, dice)`` fills the inputs so that each rounded output has one right value (rounded to
    ``exact_in`` if that is coarser than the output's dtype). ``sketch(inputs, output, dice, times)`` gives two vectors
    that agree where the one output is right, and reads each tensor about once.
    ``equivalent(inputs, outputs, expected)`` returns the expected outputs with those that are as right in their place,
    such as other indices of equal values. ``unread(*inputs)`` returns masks by input name: True where no launch may
    look, such as beyond a length. ``dice`` is a torch.Generator. The parent imports operators without torch, so a
    function that needs torch imports it.
    """

    name: str
    dims: tuple[str, ...]
    inputs: Mapping[str, Input]
    outputs: Mapping[str, Output]
    flops: Size
    reference: Callable[..., Any]
    scalars: Mapping[str, float] = field(default_factory=dict)
    bytes: Size | None = None
    fill_exact: Callable[[Sequence[Any], Any], None] | None = None
    sketch: Sketch | None = None
    equivalent: Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Sequence[Any]] | None = None
    unread: Callable[..., Mapping[str, Any]] | None = None
    rows: tuple[str, ...] = ()
    corner_power: int = 10
    multiples: tuple[tuple[str, str], ...] = ()
    requires: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = tuple(DTYPES)
    exact_in: str | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for the first part that does not fit the others."""
        if (wrong := next(self._wrong(), None)) is not None:
            raise ValueError(f"operator {self.name}: {wrong}")

    def written(self, output: Output) -> Input | Output:
        """What gives an output's shape and dtype: the input that it overwrites, or itself."""
        return self.inputs[output.inplace] if output.inplace else output

    @property
    def row_axis(self) -> str | None:
        """The size of the first axis, if one row of it in each of ``rows`` gives one row of it in each output."""
        firsts = {name: axes(each.shape)[0] for name, each in self.inputs.items()}
        leading = {firsts[name] for name in self.rows}
        leading |= {axes(self.written(each).shape)[0] for each in self.outputs.values()}
        alone = len(leading) == 1 and not any(firsts[name] in leading for name in firsts if name not in self.rows)
        return leading.pop() if self.rows and alone else None

    def _wrong(self) -> Iterator[str]:
        known, used = {*self.dims, *self.scalars}, set[str]()
        for place, sizes in self._sizes():
            for size in sizes:
                try:
                    named = names_in(size)
                except SyntaxError as error:
                    yield f"{place}: '{size}' is no expression: {error.msg}"
                    continue
                used |= named
                if unknown := sorted(named - known):
                    yield f"{place}: '{unknown[0]}' in '{size}' is no dimension; dimensions are {', '.join(self.dims)}"
        if unused := [each for each in self.dims if each not in used]:
            yield f"no tensor has dimension '{unused[0]}'"
        yield from self._wrong_tensors()

    def _sizes(self) -> Iterator[tuple[str, tuple[Size, ...]]]:
        for name, each in self.inputs.items():
            yield f"input '{name}'", (each.shape, *each.fill.sizes)
        for name, output in self.outputs.items():
            yield f"output '{name}'", (*filter(None, (output.shape,)), output.terms, output.scale)
        yield "flops", (self.flops,)
        yield "bytes", () if self.bytes is None else (self.bytes,)
        yield "requires", self.requires

    def _wrong_tensors(self) -> Iterator[str]:
        if not self.inputs or not self.outputs:
            yield "it has no inputs or no outputs"
        if unknown := [each for each in self.dtypes if each not in TOKENS]:
            yield f"dtypes: unknown '{unknown[0]}'; known: {', '.join(TOKENS)}"
        for name, output in self.outputs.items():
            if output.inplace and output.inplace not in self.inputs:
                yield f"output '{name}': '{output.inplace}' is no input; inputs are {', '.join(self.inputs)}"
            elif not output.inplace and not output.shape:
                yield f"output '{name}' has neither a shape nor an input to overwrite"
            elif (dtype := self.written(output).dtype) in NARROW_FLOATS:
                yield f"output '{name}': no limit tells a wrong {dtype} from a rounded one"
        named = [(name, each.dtype) for name, each in self.inputs.items()]
        for name, dtype in (*named, *((name, each.dtype) for name, each in self.outputs.items())):
            if dtype not in (*OF_KEY, *DTYPE_BYTES):
                yield f"'{name}': unknown dtype '{dtype}'; known: {', '.join((*OF_KEY, *DTYPE_BYTES))}"
        for name, given in self.inputs.items():
            dtypes = {TOKENS[each] for each in self.dtypes} if given.dtype in OF_KEY else {given.dtype}
            if given.dtype != "accumulator" and (refused := sorted(dtypes - given.fill.takes)):
                yield f"input '{name}': {type(given.fill).__name__} fills no {refused[0]}"
        if set(self.inputs) & set(self.outputs):
            yield f"an input and an output are called '{min(set(self.inputs) & set(self.outputs))}'"
        if unknown := [each for each in self.rows if each not in self.inputs]:
            yield f"rows: '{unknown[0]}' is no input; inputs are {', '.join(self.inputs)}"
        if self.sketch is not None and len(self.outputs) > 1:
            yield "a sketch is of one output; leave it out, and rows or whole outputs are computed again"
        if self.exact_in is not None and self.exact_in not in FLOATS:
            yield f"exact_in: '{self.exact_in}' is no float dtype"

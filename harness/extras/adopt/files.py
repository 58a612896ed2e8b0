"""The files of an example in a repository: its operator, its baseline, its kernel."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import tilelang

from harness.catalog.names import TAG
from harness.extras.adopt.exactness import MARGIN, SAID, OutputSize
from harness.extras.adopt.example import Compared, Example
from harness.extras.adopt.launch import TapedLaunch
from harness.extras.adopt.tape import HELD, NotAdopted, TensorPlace, held_dtype, places_in
from harness.extras.adopt.text import Writer, function
from harness.judge.facts.dtypes import TOKENS
from harness.machine.files import put

TOKEN_OF: Final = {dtype: token for token, dtype in TOKENS.items()}
LAUNCHES: Final = """\
from kernels.programs import compiled
from kernels.replay import data, laid_out, part


"""
_OPERATOR: Final = '''\
"""``{name}``: the reference is the example's own, of {source}.

{words}
"""

from harness.judge.facts.operator import Input, Operator, Output
from harness.operators.replay import part, laid_out, whole, data, fixed, Replayed, as_it_is, at_least, drawn


{functions}
OPERATOR = Operator(
    name="{name}",
    dims={dims},
    requires={requires},
    dtypes=("{token}",),
    inputs={{
        {inputs}
    }},
    outputs={{
        {outputs}
    }},
    flops={flops},
    reference=reference,
)
'''


@dataclass(frozen=True)
class ExampleFiles:
    """What is written of an example. ``source`` names it in words: a script's path and a function.

    ``others`` has the programs of other TileLangs, by version and by the launch's number.
    """

    name: str
    source: str
    example: Example
    others: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)
    written: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # by the launch's number

    @property
    def baseline_name(self) -> str:
        """The baseline's module, which also names iteration 0; a long name keeps its end."""
        module = f"reference_{self.name}"
        if re.fullmatch(TAG, module):
            return module
        return f"reference_{self.name[-14:]}_{hashlib.sha256(self.name.encode()).hexdigest()[:4]}"

    @property
    def names(self) -> list[str]:
        """The inputs' names."""
        return [f"x{position}" for position in range(len(self.example.inputs))]

    @property
    def sizes(self) -> list[int]:
        """The sizes over 1 of inputs and outputs, each once: the dimensions of the shape key."""
        places = (*self.example.inputs, *(each.output for each in self.example.outputs))
        return list(dict.fromkeys(size for place in places for size in place.size if size > 1)) or [1]

    @property
    def token(self) -> str:
        """The dtypes of the shape key: those of the first input of floats, else of the first that a key can have."""
        dtypes = [held_dtype(each) for each in self.example.inputs]
        floats = [each for each in dtypes if "float" in each]
        return next((TOKEN_OF[each] for each in (*floats, *dtypes) if each in TOKEN_OF), "f32")

    @property
    def shape_key(self) -> str:
        output = "f32" if self.token in ("e4m3", "e5m2") else ""
        return f"{self.name}_{self.token}fp32{output}_{'x'.join(map(str, self.sizes))}"

    # The operator

    def operator(self, sizes: Sequence[OutputSize], *, wide: bool) -> str:
        """The operator's module; ``sizes`` has one for each output."""
        example = self.example
        fixed = [f"x{position}" for position in sorted(example.fixed)]
        words = f"Inputs of its own numbers alone: {', '.join(fixed)}." if fixed else "Inputs are drawn anew each time."
        if own := [f"y{number}" for number, each in enumerate(sizes) if each.own]:
            words += f"\nLimits are {MARGIN:g} times the error of the script's own precision: {', '.join(own)}."
        tensors = [
            f'"x{position}": Input("{self._shape(place)}", "{held_dtype(place)}", '
            f"Replayed(make{position}, fixed={position in example.fixed})),"
            for position, place in enumerate(example.inputs)
        ]
        dims = [f"D{number}" for number in range(len(self.sizes))]
        makes = [self._make(position, place) for position, place in enumerate(example.inputs)]
        return _OPERATOR.format(
            name=self.name,
            source=self.source,
            words=words,
            functions="\n".join((*makes, self._computed(), self._reference(wide=wide))),
            dims=tuple(dims),
            requires=tuple(f"{name} == {size}" for name, size in zip(dims, self.sizes, strict=True)),
            token=self.token,
            inputs="\n        ".join(tensors),
            outputs="\n        ".join(self._outputs(sizes)),
            flops=max(1, example.flops),
        )

    def _outputs(self, sizes: Sequence[OutputSize]) -> Iterator[str]:
        example = self.example
        found = zip(example.outputs, example.overwritten, sizes, strict=True)
        for number, (each, place, size) in enumerate(found):
            where = f'"{self._shape(each.output)}", "{held_dtype(each.output)}"'
            if place is not None:
                where = f'inplace="x{place}"'
            said = {name: getattr(size, name) for name in SAID}
            rest = ", ".join(f"{name}={value!r}" for name, value in {"terms": example.terms, **said}.items())
            yield f'"y{number}": Output({where}, {rest}),'

    def _shape(self, place: TensorPlace) -> str:
        sizes = self.sizes
        return ", ".join(f"D{sizes.index(size)}" if size in sizes else str(size) for size in place.size) or "1"

    def _make(self, position: int, place: TensorPlace) -> str:
        writer = Writer(self.example.tape)
        body = list(writer.statements(self.example.made(place), [place]))
        made = _held(f"{writer.place(place)}.reshape({place.size})", place)
        return function(f"make{position}(seed, device)", body, made)

    def _computed(self) -> str:
        """The reference at the precision that ``kind`` gives: what follows from no input first, on a CPU."""
        example = self.example
        from_inputs = example.tape.following_from(example.known, example.reference)
        is_random = any(each.random for each in example.reference)
        alone = [each for each in example.reference if is_random and each not in from_inputs]
        held = Writer(example.tape)
        made = {value.storage for call in alone for value in (*call.reads, *call.writes)}
        wanted = [each for call in from_inputs for each in places_in([call.arguments, call.keywords])]
        kept = [each for each in (*wanted, *(each.expected for each in example.outputs)) if each.value.storage in made]
        before = list(held.statements(alone, kept))
        storages = list(dict.fromkeys(each.value.storage for each in kept))
        writer = Writer(example.tape, kind="kind")
        body = ["device = x0.device"]
        if storages:
            body += [f"{', '.join(f'v{each}' for each in storages)}, = fixed(alone, device)"]
            for each in storages:
                dtype = example.tape.bases[each].dtype
                body += [f"v{each} = v{each}.to({writer.dtype(dtype)}, copy=True)"]
                writer.names[each] = f"v{each}"
        body += self._known(writer)
        rest = [each for each in example.reference if each not in alone]
        body += writer.statements(rest, [each.expected for each in example.outputs])
        results = ", ".join(self._expected(writer, each) for each in example.outputs)
        text = function(f"computed({', '.join(self.names)}, kind=as_it_is)", body, f"({results},)")
        if not storages:
            return text
        first = function("alone(seed, device)", before, f"({', '.join(f'v{each}' for each in storages)},)")
        return f"{first}\n{text}"

    def _known(self, writer: Writer) -> Iterator[str]:
        """The tensors that inputs tell, as their bases have them."""
        example = self.example
        for value, (position, copies) in example.known.items():
            if value not in example.needed:
                continue
            made = example.inputs[position]
            text = _freed(f"x{position}", made, example.tape.bases[made.value.storage])
            for copy in copies:
                base = example.tape.bases[made.value.storage]
                of = example.tape.bases[copy.value.storage]
                text = f"whole({text}.reshape({base.size}), {copy.size}, {copy.stride}, {copy.offset}, {of.size})"
                made = copy
            base = example.tape.bases[value.storage]
            name = f"v{value.storage}"
            writer.names[value.storage] = name
            yield f"{name} = {text}.reshape({base.size}).to({writer.dtype(base.dtype)})"
            if any(value.storage == each.storage for call in example.reference for each in call.written):
                yield f"{name} = {name}.clone()"

    def _expected(self, writer: Writer, each: Compared) -> str:
        base, view = each.output, each.actual
        text = writer.place(each.expected)
        if not view.same_form(base):
            text = f"whole({text}, {view.size}, {view.stride}, {view.offset}, {base.size})"
        return _held(f"{text}.to({writer.dtype(base.dtype)})", base)

    def _reference(self, *, wide: bool) -> str:
        names, inputs = ", ".join(self.names), list(zip(self.names, self.example.inputs, strict=True))
        if not wide:
            own = ", ".join(f"{name}.to(torch.{held_dtype(each)})" for name, each in inputs)
            return function(f"reference({names})", [], f"computed({own})")
        floats = [f"{name}.dtype" for name, each in inputs if each.dtype.is_floating_point]
        body = [f"kind = at_least({(*floats, 'torch.float32')[0]})"]
        return function(f"reference({names})", body, f"computed({names}, kind=kind)")

    def baseline(self) -> str:
        """The reference as the script has it, at its own precision."""
        outputs = [f"y{number}" for number in range(len(self.example.outputs))]
        written = dict(zip(self.example.overwritten, outputs, strict=True))
        names = [written.get(position, name) for position, name in enumerate(self.names)]
        parameters, call = ", ".join(names), f"computed({', '.join(names)})"
        if written.keys() == {None}:
            says, result = "The outputs of ``{}`` in their order.", "tuple[torch.Tensor, ...]"
            body = f"return {call}"
        else:
            parameters = ", ".join(dict.fromkeys((*names, *outputs)))
            says, result = "Write the outputs of ``{}``; those in an input's place begin as that input.", "None"
            body = f"for y, made in zip(({', '.join(outputs)},), {call}, strict=True):\n        y.copy_(made)"
        return (
            f'"""The reference of {self.source}, at its own precision."""\n\nimport torch\n\n'
            f"from harness.operators.{self.name} import computed\n\n\n"
            f"def {self.name}({parameters}) -> {result}:\n"
            f'    """{says.format(self.name)}"""\n    {body}\n'
        )

    # The kernel

    def kernel(self, folder: Path) -> str:
        """The module with the kernel; writes its programs into ``folder`` or below it, one JSON file each."""
        body = self._one_launch(folder) if self.example.launch is not None else self._launches(folder)
        return f'"""The kernel of {self.source}, as the script compiles it."""\n\n{body}'

    def _one_launch(self, folder: Path) -> str:
        launch, spaces = self.example.calls[0].function, self.example.workspaces
        made = "".join(f'Workspace({each.size}, "{held_dtype(each)}"), ' for each in spaces)
        program = self._program(folder, launch, 0, self.example.order)
        names = "Program, Workspace" if spaces else "Program"
        head = f"from harness.iteration import {names}\nfrom kernels.programs import read\n\n\n"
        return head + function("program() -> Program", [], f"read({program}, workspaces=({made}))")

    def _launches(self, folder: Path) -> str:
        example, writer = self.example, Writer(self.example.tape)
        body, programs = ["device = x0.device"], list[str]()
        for position, place in enumerate(example.inputs):
            base = example.tape.bases[place.value.storage]
            if base.elements != place.elements:
                raise NotAdopted("its kernels take parts of one tensor")
            writer.names[place.value.storage] = f"x{position}"
            body += [f"x{position} = {_freed(f'x{position}', place, base)}.view({base.size})"]
        for call in example.calls:
            if isinstance(call.function, TapedLaunch):
                program = self._program(folder, call.function, call.number, call.function.every)
                programs += [f"    {call.number}: compiled({program}),"]
        body += writer.statements(example.calls, [each.output for each in example.outputs])
        body += [
            f"y{number}.copy_({_held(writer.place(each.output), each.output)})"
            for number, each in enumerate(example.outputs)
        ]
        names = [*self.names, *(f"y{number}" for number in range(len(example.outputs)))]
        launch = function(f"launch({', '.join(names)})", body, "None").strip().split("\n")
        return LAUNCHES + function("program()", ["kernels = {", *programs, "}", *launch], "launch")

    def _program(self, folder: Path, launch: TapedLaunch, number: int, order: Sequence[int]) -> str:
        text, here = launch.saved(order), tilelang.__version__
        path = Path(here, f"{self.name}.{number}.json")
        put(folder / path, text.encode())
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        self.written[str(number)] = str(path), sha256, launch.pass_configs, launch.compile_flags
        told = ((version, made.get(str(number))) for version, made in self.others.items() if version != here)
        saved = {**{version: made for version, made in told if made}, here: self.written[str(number)]}
        return f"{{{', '.join(f'{version!r}: {(*each[:3], tuple(each[3]))!r}' for version, each in saved.items())}}}"


def _held(text: str, place: TensorPlace) -> str:
    """A tensor as an operator holds it."""
    return f"{text}.view(torch.{held_dtype(place)})" if place.dtype in HELD else text


def _freed(text: str, place: TensorPlace, base: TensorPlace) -> str:
    """What an operator holds of a tensor, in the dtype of its base."""
    if place.dtype == base.dtype and place.dtype not in HELD:
        return text
    return f"{text}.to(torch.{held_dtype(place)}).view({base.dtype})"

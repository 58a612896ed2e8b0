"""The levers that an iteration's kernels are made with, noted while its code runs, and held to its CONFIG.

It runs in the contestant. It notes the arguments of a family's function that makes a program, and of the file's own jit
functions. It also notes the closures of the kernels that the file defines.
"""

import ast
import inspect
import json
import linecache
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

import tilelang
from tilelang import PassConfigKey, tvm
from tilelang.jit import JITImpl
from tilelang.language.eager import builder

from harness.judge.child.capture import tensor_ir
from harness.judge.contract import TUNING_NAME, levers, literals
from harness.judge.facts.hashes import FAMILIES
from harness.judge.facts.import_reader import imports
from harness.judge.facts.program import Program
from harness.judge.places import parsed
from harness.judge.vocabulary import refused_option

_MADE = (Program, tensor_ir().PrimFunc, tilelang.JITKernel, JITImpl)
_FRONT = f"{FAMILIES}.front"
DEVICE_FLAGS: Final = "tl.device_compile_flags"  # a pass configuration that nvcc gets as options
# Functions that TileLang gives the generated source to before it is compiled; by default there are none.
_REWRITING: Final = ("tilelang_callback_cuda_postproc", "tilelang_callback_c_host_postproc")
_SET_BY_LIBRARIES: Final = {"CUDA_MODULE_LOADING", "TORCH_CUDA_ARCH_LIST"}  # torch at its first use of CUDA, TileLang
_PLAIN = (bool, int, float, str, type(None))


class Levers:
    """Notes of one file; without a CONFIG of literals there are none."""

    def __init__(self, path: Path) -> None:
        module = parsed(path)
        self._file = str(path)
        self._pinned = levers(module)
        self._literals = literals(module)
        self._depth = 0
        self._heard: set[Callable[..., Any]] = set()
        self._differences: dict[str, str] = {}
        self._environment = dict(os.environ)
        self._source = path.read_text(encoding="utf-8-sig", errors="replace")
        self._programs: list[tuple[str, str]] = []  # flags and pass configurations, as families gave them
        self._prim_funcs: list[object] = []  # of those programs
        if self._pinned is not None:
            self._listen(module)

    def complaint(self) -> str:
        """Where the kernels were made with something else than CONFIG says; empty if nowhere."""
        return "; ".join(self._differences.values())

    def note_config(self, module: ModuleType) -> None:
        """Compare CONFIG and the environment as they are now."""
        config = getattr(module, "CONFIG", None)
        if self._pinned is not None and isinstance(config, Mapping):
            self._note("CONFIG as the file left it", config)
            self._note("CONFIG as the file left it", dict.fromkeys(self._pinned.keys() - config.keys(), "nothing"))
            self._note_added("CONFIG as the file left it", config)
        elif self._pinned is not None:
            self._differences.setdefault("CONFIG", f"CONFIG as the file left it is {_text(config)}, and no dict")
        self._note_environment()

    def _note_environment(self) -> None:
        changed = {name for name, _ in self._environment.items() ^ os.environ.items()} - _SET_BY_LIBRARIES
        if changed:
            self._differences.setdefault("environment", f"the file changes {min(changed)}, which compilers may read")

    def note_result(self, built: object) -> None:
        """Compare what ``build`` returned with what the family made."""
        if self._pinned is None or not isinstance(built, Program):
            return
        self._note("the program", {"compile_flags": built.compile_flags, **built.pass_configs})
        if self._programs and _options(built) not in self._programs:
            self._differences.setdefault("program", "build changed the flags of the program that its family made")
        if self._prim_funcs and not any(built.prim_func is each for each in self._prim_funcs):
            self._differences.setdefault("program", "build asked a family for a program, and returned another kernel")

    def _listen(self, module: ast.Module) -> None:
        for each in imports(module):
            if each.module[0] == FAMILIES:
                with suppress(Exception):  # the file's own import fails too, and says where
                    self._hear(import_module(each.dotted), each.name or "*", each.full)
        for name in [name for name in sys.modules if name.partition(".")[0] == FAMILIES]:  # it may find them there
            self._hear(sys.modules[name], "*", name)
        mutate, get_tir, create = builder.mutate, JITImpl.get_tir, tilelang.JITKernel.__init__
        parameters = inspect.signature(create)

        def noting_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            """TileLang makes a kernel: its options name no files, and the environment is that of the start."""
            given = _arguments(parameters, (kernel, *args), kwargs)
            if not given:
                return create(kernel, *args, **kwargs)  # which says what does not fit
            flags = _read(given["compile_flags"] or ())
            passed = {key: _read(value) for key, value in dict(given["pass_configs"] or {}).items()}
            configs = {_read(key.value if type(key) is PassConfigKey else key): each for key, each in passed.items()}
            for options in (flags, configs.get(DEVICE_FLAGS, ())):
                for option in (options,) if isinstance(options, str) else options:
                    if complaint := refused_option(str(option)):
                        self._differences.setdefault("option", complaint)
            self._note("TileLang's compiler", {"compile_flags": flags, **configs})
            self._note_environment()
            return create(**{**given, "compile_flags": flags or None, "pass_configs": passed or None})

        def noting_mutate(function: Any) -> Any:
            if function.__code__.co_filename == self._file:
                # What TileLang reads of the function is the file's text, whatever the cache was made to say.
                linecache.cache[self._file] = (
                    len(self._source),
                    None,
                    [f"{line}\n" for line in self._source.split("\n")],
                    self._file,
                )
                self._note(f"the kernel {function.__name__}", _closure(function))
            return mutate(function)

        def noting_get_tir(jit: Any, *args: Any, **kwargs: Any) -> Any:
            function = getattr(jit.func, "orig_func", None)
            if function is not None and function.__code__.co_filename == self._file:
                self._note(f"{function.__name__}(…)", _arguments(jit.signature, args, kwargs))
            return get_tir(jit, *args, **kwargs)

        tilelang.JITKernel.__init__ = noting_kernel
        builder.mutate = noting_mutate
        JITImpl.get_tir = noting_get_tir

    def _hear(self, module: ModuleType, name: str, full: str) -> None:
        """Put a noting function in the place of a family's: of the named one, or of all that a module has."""
        names = [name]
        if names != ["*"] and not hasattr(module, names[0]):
            module, names = import_module(full), ["*"]
        elif isinstance(found := getattr(module, names[0], None), ModuleType):
            module, names = found, ["*"]
        for each in list(vars(module)) if names == ["*"] else names:
            function = getattr(module, each)
            if not isinstance(function, FunctionType) or function in self._heard:
                continue
            if function.__module__.partition(".")[0] == FAMILIES:
                noting = self._noting(function)
                self._heard.add(noting)
                setattr(module, each, noting)

    def _noting(self, function: FunctionType) -> Callable[..., Any]:
        signature = inspect.signature(function)

        @wraps(function)
        def noting(*args: Any, **kwargs: Any) -> Any:
            if function.__module__.startswith(_FRONT):
                self._differences.setdefault(_FRONT, f"{function.__name__}(…) of {_FRONT} takes other rows' levers")
            self._depth += 1
            try:
                made = function(*args, **kwargs)
            finally:
                self._depth -= 1
            if not self._depth and isinstance(made, _MADE):  # not what one family asks of another
                if isinstance(made, Program):
                    self._programs.append(_options(made))
                    self._prim_funcs.append(made.prim_func)
                arguments = _arguments(signature, args, kwargs)
                self._note(f"{function.__name__}(…)", arguments)
                defaults = {name: each.default for name, each in signature.parameters.items()}
                given = {name: each for name, each in arguments.items() if _text(each) != _text(defaults.get(name))}
                self._note_added(f"{function.__name__}(…)", given)
            return made

        del noting.__wrapped__
        return noting

    def _note(self, where: str, values: Mapping[str, Any]) -> None:
        pinned = self._pinned or {}
        for name, given in values.items():
            value = _unwrapped(given)
            if name in pinned and _is_plain(value) and _text(value) != _text(pinned[name]):
                self._differences.setdefault(name, f"CONFIG pins {name}={pinned[name]!r}, and {where} has {value!r}")

    def _note_added(self, where: str, values: Mapping[str, Any]) -> None:
        """Levers that neither CONFIG nor a literal of the source gives."""
        for name, value in values.items():
            known = name in (self._pinned or {}) or (name, _text(value)) in self._literals
            if not known and TUNING_NAME.fullmatch(name) and _is_plain(value):
                self._differences.setdefault(name, f"{where} has {name}={value!r}, which CONFIG does not pin")


def plain(built: object) -> object:
    """A program with options that were read once, of a dynamic one as literals; anything else as it is.

    So notes, hash and compiler see the same. Raises TypeError for other options, and for a program of a class of its
    own. It also does where something would rewrite a dynamic program's source, which the hash does not cover.
    """
    if not isinstance(built, Program):
        return built
    if type(built) is not Program:
        raise TypeError(f"build() returned {type(built).__name__}, a class of its own; return a Program itself")
    configs = {key: _read(value) for key, value in dict(built.pass_configs).items()}
    flags, names = _read(built.compile_flags), [*built.dynamic]
    if not names:
        return Program(built.prim_func, configs, tuple(flags), built.workspaces)
    if any(tvm.get_global_func(name, allow_missing=True) for name in _REWRITING):
        raise TypeError("a dynamic kernel's source is compiled as it is generated; register no post-processing")
    configs, flags, names = json.loads(json.dumps((configs, flags, names)))
    return Program(built.prim_func, configs, tuple(flags), built.workspaces, tuple(names))


def _read(option: Any) -> Any:
    """An option as it is; what holds several as a list, since a generator and a view of one's own are read once.

    Raises TypeError for a text of a class of its own, which may say one thing here and another to the compiler.
    """
    if isinstance(option, str):
        if type(option) is not str:
            raise TypeError(f"{type(option).__name__} is a text of a class of its own; give the compiler a plain text")
        return option
    return (
        [_read(each) for each in option] if isinstance(option, Iterable) and not isinstance(option, Mapping) else option
    )


def _arguments(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name, those of ``**`` too; none if they do not fit."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return {}
    bound.apply_defaults()
    stars = (each.name for each in signature.parameters.values() if each.kind is each.VAR_KEYWORD)
    more: dict[str, Any] = bound.arguments.pop(next(stars, ""), {})
    return {**bound.arguments, **more}


def _closure(function: Any) -> dict[str, Any]:
    """The values that a function takes from around it, globals too."""
    known = function.__globals__
    return {**{name: known[name] for name in function.__code__.co_names if name in known}, **dict(_cells(function))}


def _cells(function: Any) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with suppress(ValueError):  # not yet bound
            yield name, cell.cell_contents


def _unwrapped(value: Any) -> Any:
    """A number in TVM's own wrapping is a number."""
    return value.value if type(value).__name__ in ("IntImm", "FloatImm") else value


def _is_plain(value: object) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else None
    return isinstance(value, _PLAIN) if parts is None else all(map(_is_plain, parts))


def _text(value: object) -> str:
    """A literal's text. An instance of a class of one's own could say anything."""
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_text, value))})"
    if isinstance(value, dict):
        return str({_text(name): _text(each) for name, each in value.items()})
    return repr(value) if type(value) in _PLAIN else f"an instance of {type(value).__name__}"


def _options(program: Program) -> tuple[str, str]:
    return _text(program.compile_flags), _text(dict(program.pass_configs))

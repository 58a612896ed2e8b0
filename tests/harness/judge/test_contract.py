"""Every rule of the contract, broken once; and every iteration that ships keeps all of them."""

import ast
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from harness.catalog.tree import Iteration, Selection, Tree
from harness.judge import contract, vocabulary
from harness.judge.contract import Breach, Terms
from tests.harness.checkout import ROOT

GOOD = '''"""One idea, said in one sentence."""

import tilelang.language as T
from harness.iteration import bench_with, main, verify_with

PARENT = "iter000_library"
CONFIG = dict(block_M=128, stages=(1, 2), policy="square", negative=-1)
WIDTH = 4


def build(problem):
    M, N, K = problem.dims
    return T.Kernel(N // CONFIG["block_M"], threads=WIDTH * 32)
'''
BASELINE = '''"""What a user would call instead."""

from baselines import library


def build(problem):
    return library(problem)
'''


@pytest.fixture
def folder(tree: Tree) -> Path:
    made = tree.root / "tuning/cpu/tilelang/srcs/matmul_f32fp32_8x8x8/me"
    made.mkdir(parents=True)
    (made / "iter000_library.py").write_text(BASELINE)
    return made


def check(folder: Path, source: str, name: str = "iter001_idea") -> Terms:
    path = folder / f"{name}.py"
    path.write_text(source)
    return contract.check(Tree(folder.parents[5]).parse(path))


def test_a_good_iteration_says_its_idea_its_parent_and_its_config(folder: Path) -> None:
    assert check(folder, GOOD) == Terms(
        idea="One idea, said in one sentence.",
        parent="iter000_library",
        config="block_M=128, stages=(1, 2), policy='square', negative=-1",
    )


def test_the_baseline_needs_no_parent_and_no_config(folder: Path) -> None:
    assert check(folder, BASELINE, "iter000_library") == Terms("What a user would call instead.", None, "")


def test_config_may_be_a_braced_dict(folder: Path) -> None:
    assert (
        check(folder, GOOD.replace("dict(block_M=128, ", '{"block_M": 128, "x": 1}  # (')).config == "block_M=128, x=1"
    )


BREACHES = {
    # what replaces what in GOOD, and what the message says
    "does not parse": ("def build(problem):", "def build(problem:", "does not parse"),
    "null byte": ("WIDTH = 4", "WIDTH = 4\0", "parse|read as Python"),
    "a forbidden name in a string": ("WIDTH = 4", 'CELL = "__closure__"', "line 8: '__closure__' is not allowed"),
    "a dotted path in a string": ("WIDTH = 4", 'PATH = "sys.modules"', "line 8: 'sys' is not allowed"),
    "inside torch": ("WIDTH = 4", "import torch\n\nOFF = torch._C._off", "'torch._C._off' is internal to torch"),
    "numpy's view": ("return T.Kernel", "return problem.numpy() or T.Kernel", "'numpy' is not allowed"),
    "a product by its dunder": ("return T.Kernel", "return a.__matmul__(b) or T.Kernel", "calls the library"),
    "a name put together": ("problem.dims", 'getattr(problem, "num" + "py")()', "'getattr' is not allowed"),
    "a module of a module": ("problem.dims", "dataclasses.sys", "'sys' is not allowed"),
    "a frame": ("problem.dims", "dataclasses._getframe()", "'dataclasses._getframe' is internal to dataclasses"),
    "an attribute in a pattern": ("WIDTH = 4", "match 4:\n    case int(numpy=x):\n        pass", "'numpy' is not"),
    "a product of operator": ("import tilelang.language as T", "from operator import matmul as times", "'matmul' of"),
    "all of a module": ("import tilelang.language as T", "from operator import *", "import by name"),
    "a renamed getter": ("import tilelang.language as T", "from operator import attrgetter as a", "'attrgetter' is"),
    "the loader": ("problem.dims", "__loader__.get_data('x')", "'__loader__' is not allowed"),
    "a program from a file": ("problem.dims", "tvm.ir.load_json('x')", "'load_json' is not allowed"),
    "tensors from a file": ("problem.dims", "torch.load('x')", "'torch.load' brings in what no hash"),
    "a walrus in a default": ("WIDTH = 4", "def size(x=(CONFIG := {})):\n    pass", "'CONFIG' is bound twice"),
    "the rest of a match": (
        "WIDTH = 4", "match {}:\n    case {**CONFIG}:\n        pass", "'CONFIG' is bound twice"
    ),
    "options in a source": ("WIDTH = 4", 'TEXT = """\n#pragma GCC optimize("O3")\n"""', "other options than CONFIG"),
    "options on a spliced line": (
        "WIDTH = 4", 'TEXT = "\\n#pragma \\\\\\nGCC optimize(3)\\n"', "other options than CONFIG"
    ),
    "options behind a comment": ("WIDTH = 4", 'TEXT = "\\n#pragma/**/GCC ivdep\\n"', "other options than CONFIG"),
    "options by another sign": ("WIDTH = 4", 'TEXT = "\\n%:pragma GCC ivdep\\n"', "other options than CONFIG"),
    "options of a function": ("WIDTH = 4", """TEXT = '[[gnu::optimize("O3")]]'""", "other options than CONFIG"),
    "options after a comment in a text": (
        "WIDTH = 4", """TEXT = 'x = "/*";\\n#pragma GCC ivdep\\ny = "*/";'""", "other options than CONFIG"
    ),
    "a raw text": ("WIDTH = 4", """TEXT = 'R"(\\n/*\\n)"'""", "hides what the compiler reads"),
    "a file in a source": ("WIDTH = 4", """TEXT = '#include "/tmp/k.h"'""", "brings in a file that no hash"),
    "a file by its path": ("WIDTH = 4", "TEXT = '#include </tmp/k.h>'", "brings in a file that no hash"),
    "another encoding": ('"""One idea', '# -*- coding: utf-7 -*-\n"""One idea', "says that it is utf-7; write it in"),
    "evaluated annotations": (
        "import tilelang.language as T", "from typing import get_type_hints", "'get_type_hints' is not allowed"
    ),
    "annotations of typing": (
        "import tilelang.language as T", "from typing import get_overloads", "of typing it may name what is listed"
    ),
    "an attribute by position": (
        "WIDTH = 4", "match 4:\n    case int(x):\n        pass", "a class is matched by position"
    ),
    "attributes copied": (
        "import tilelang.language as T", "from functools import wraps", "of functools it may name what is listed"
    ),
    "a method that decides what is an instance": (
        "WIDTH = 4", "class Any:\n    def __instancecheck__(self, other):\n        return True",
        "'__instancecheck__' is not allowed",
    ),
    "a dunder as a keyword": ("WIDTH = 4", "TYPE = dict(__match_args__=(1,))", "'__match_args__' is not allowed"),
    "a dunder in a string": ("WIDTH = 4", 'NAME = "__match_args__"', "'__match_args__' is not allowed"),
    "torch passed on": ("WIDTH = 4", "import torch\n\nNAMES = dir(torch)", "'torch' is a module; name what you need"),
    "TileLang's language passed on": ("problem.dims", "dir(T)", "'T' is a module; name what you need of it"),
    "a module of TileLang": ("problem.dims", "T.utils", "'T.utils' is a module; name what you need of it"),
    "a module at the end": ("WIDTH = 4", "import torch\n\nX = torch.cuda", "'torch.cuda' is not allowed in an iter"),
    "torch as self": ("WIDTH = 4", "import torch as self\n\nX = self._C", "'self' is the first argument of a method"),
    "torch by another module": ("problem.dims", "operands.torch", "leads to the module torch; import it by itself"),
    "from a family": (
        "import tilelang.language as T", "from kernels.operands import torch", "is another module; import it by itself"
    ),
    "a product that torch calls otherwise": (
        "WIDTH = 4", "import torch\n\nX = torch.linalg.multi_dot", "'torch.linalg.multi_dot' calls the library"
    ),
    "what torch loads": (
        "WIDTH = 4", "import torch\n\nX = torch.serialization.pickle.loads", "'pickle' is not allowed"
    ),
    "TileLang's cache": ("problem.dims", "tilelang.enable_cache()", "'enable_cache' is not allowed"),
    "TileLang's tracer": ("problem.dims", "T.eager.builder", "'T.eager.builder' is not what an iteration may name"),
    "something else in a module": ("    M, N, K", "    T.Kernel = 1\n    M, N, K", "is not the iteration's own"),
    "Python's compiler": ("problem.dims", "compile('1', '', 'eval')", "name TileLang's in full: tilelang.compile"),
    "code of a generator": ("problem.dims", "(x for x in ()).gi_code", "'gi_code' is not allowed"),
    "a CONFIG that says more": (
        "CONFIG = dict(block_M=128,", 'CONFIG = {"block_M=64, threads": 1}\nD = dict(', "is no name of a parameter"
    ),
    "a CONFIG with escapes": (
        "CONFIG = dict(block_M=128,", 'CONFIG = {"\\x1b[31m": 1}\nD = dict(', "is no name of a parameter"
    ),
    "a CONFIG with letters of another script": (
        "CONFIG = dict(block_M=128,", 'CONFIG = dict(bloсk_M=1)\nD = dict(', "is no name of a parameter"
    ),
    "a CONFIG with data": ("negative=-1", f'negative="{"y" * 5000}"', "CONFIG has over 4,000 characters"),
    "a long file": ("WIDTH = 4", f'TEXT = "{"y" * 300_000}"', "the file has over 256 KB"),
    "numpy of TileLang": (
        "import tilelang.language as T", "from tilelang.utils.tensor import np", "'np' is not what an iteration may"
    ),
    "numpy of its language": ("problem.dims", "T.dtypes.np.pi", "'T.dtypes.np.pi' is not what an iteration may name"),
    "TVM's functions": (
        "WIDTH = 4", "from tilelang import tvm\n\nX = tvm.ffi.init_ffi_api", "is not what an iteration may name"
    ),
    "a format string": ("problem.dims", "'{0.dims}'.format(problem)", "'format' is not allowed"),
    "what an error is about": ("problem.dims", "problem.error.obj", "'obj' is not allowed"),
    "the harness by its name": (
        "import tilelang.language as T", "import harness.iteration\nX = harness.judge.places", "is not allowed in"
    ),
    "a module of that name": ("WIDTH = 4", "import torch as __builtins__", "'__builtins__' is not allowed"),
    "a class of that name": ("WIDTH = 4", "class __builtins__:\n    pass", "'__builtins__' is not allowed"),
    "a global of that name": ("    M, N, K", "    global __builtins__\n    M, N, K", "'__builtins__' is not allowed"),
    "an annotation in quotes": ("WIDTH = 4", "WIDTH: 'int' = 4", "an annotation in quotes is evaluated elsewhere"),
    "an annotation within another": ("WIDTH = 4", "WIDTH: list['int'] = 4", "an annotation in quotes is evaluated"),
    "a class made by the type of a type": (
        "import tilelang.language as T",
        "from dataclasses import dataclass as d\nX = d(type(type(0)))",
        "'type' may only be compared",
    ),
    "the importer of the families": (
        "import tilelang.language as T", "from kernels import import_module", "'import_module' is not allowed"
    ),
    "a module of a module of a family": (
        "import tilelang.language as T", "from kernels import hopper\nX = hopper.T.eager", "to T; import what you need"
    ),
    "a class made by type": ("problem.dims", "type('X', (), {})", "'type' may only be compared"),
    "type as a value": ("problem.dims", "map(type, problem.dims)", "'type' may only be compared"),
    "a module of a family": ("import tilelang.language as T", "from kernels.hopper import T", "is another module"),
    "the same by a path": (
        "import tilelang.language as T", "import kernels.hopper\nX = kernels.hopper.T.x", "to T; import"
    ),
    "the front by a path": (
        "import tilelang.language as T", "import kernels.cpu\nX = kernels.linear", "to linear; import"
    ),
    "a library in a source": ("WIDTH = 4", "TEXT = 'dlsym(dlopen(0, 1), x)'", "calls a library or another program"),
    "another dict": ("WIDTH = 4", "def dict(**given):\n    return [2]", "'dict' is bound anew"),
    "a second build": ("WIDTH = 4", "for build in (min,):\n    pass", "'build' is bound twice"),
    "a second CONFIG": ("WIDTH = 4", "with open_it() as CONFIG:\n    pass", "'CONFIG' is bound twice"),
    "a build of a function": ("M, N, K = problem.dims", "global CONFIG\n    CONFIG = {}", "'CONFIG' is bound twice"),
    "a decorated build": ("def build(problem):", "@min\ndef build(problem):", "build has a decorator"),
    "no docstring": ('"""One idea, said in one sentence."""', "", "line 1: no docstring"),
    "a formula": ('"""One idea', '"""=One idea', "line 1: the docstring begins with =, which a spreadsheet takes"),
    "two sentences": ("in one sentence.", "in one. And another one.", "line 1: the docstring must be one sentence"),
    "two paragraphs": ("in one sentence.", "in one.\n\nmore.", "line 1: the docstring must be one sentence"),
    "no full stop": ("sentence.", "sentence", "line 1: the docstring must be one sentence"),
    "import os": ("import tilelang.language as T", "import os", "line 3: import of 'os' is not allowed; allowed: "),
    "from subprocess": ("import tilelang.language as T", "from subprocess import run", "import of 'subprocess'"),
    "import in a function": ("    M, N, K", "    import numpy\n    M, N, K", "line 12: import of 'numpy'"),
    "harness internals": ("harness.iteration import", "harness.errors import", "import of 'harness.errors'"),
    "harness itself": ("from harness.iteration import", "from harness import", "import of 'harness'"),
    "relative import": ("from harness.iteration", "from .other", "relative imports are not allowed"),
    "baselines": ("import tilelang.language as T", "from baselines import library", "only iter000 imports baselines"),
    "autotuner": ("import tilelang.language as T", "import tilelang.autotuner", "import of 'tilelang.autotuner'"),
    "the front": ("import tilelang.language as T", "from kernels import matmul", "it takes other rows' levers"),
    "all of the front": ("import tilelang.language as T", "import kernels as k", "it takes other rows' levers"),
    "closures": ("problem.dims", "build.__closure__", "'__closure__' is not allowed"),
    "autotune": ("    M, N, K", "    T.autotune\n    M, N, K", "line 12: 'autotune' is not allowed"),
    "torch.nn": ("import tilelang.language as T", "import torch.nn", "import of 'torch.nn'"),
    "from torch import nn": ("import tilelang.language as T", "from torch import nn", "line 3: import of 'torch.nn'"),
    "from tilelang import autotuner": ("import tilelang.language as T", "from tilelang import autotuner", "autotuner"),
    "torch renamed": ("    M, N, K", "    import torch as t\n    t.matmul\n    M, N, K", "'t.matmul' calls"),
    "torch.matmul": ("    M, N, K", "    torch.matmul\n    M, N, K", "line 12: 'torch.matmul' calls the library"),
    "torch.nn.functional": ("    M, N, K", "    torch.nn.functional.linear\n    M, N, K", "'torch.nn.functional"),
    "F.linear": ("    M, N, K", "    F.linear\n    M, N, K", "line 12: 'F.linear' calls the library"),
    "from torch import matmul": ("import tilelang.language as T", "from torch import matmul", "'matmul' of torch"),
    "the @ operator": ("problem.dims", "problem @ problem", "line 12: the @ operator calls the library"),
    "the @= operator": ("    M, N, K", "    problem @= problem\n    M, N, K", "the @ operator calls the library"),
    "ctypes": ("    M, N, K", "    tilelang.ctypes\n    M, N, K", "line 12: 'ctypes' is not allowed"),
    "relay": ("    M, N, K", "    tvm.relay\n    M, N, K", "line 12: 'relay' is not allowed"),
    "eval": ("problem.dims", "eval('1')", "line 12: 'eval' is not allowed"),
    "__import__": ("problem.dims", "__import__('os')", "line 12: '__import__' is not allowed"),
    "no build": ("def build(problem):", "def make(problem):", "no function build"),
    "build takes two": ("def build(problem):", "def build(problem, extra):", "line 11: build must take one argument"),
    "build takes none": ("def build(problem):", "def build():", "line 11: build must take one argument"),
    "no CONFIG": ("CONFIG = dict", "config = dict", "no CONFIG; pin every tuning parameter"),
    "CONFIG is no dict": ("CONFIG = dict", "CONFIG = list", "CONFIG must be a dict of literals"),
    "CONFIG is computed": ("block_M=128", "block_M=min(64, 128)", "line 7: CONFIG: 'block_M' is not a literal"),
    "CONFIG is spread": ("block_M=128", "**OTHER", r"line 7: CONFIG: '\*\*' is not a literal"),
    "constant is computed": ("WIDTH = 4", "WIDTH = len('four')", "line 8: 'WIDTH' is not a literal; pin it"),
    "parameter is computed": ("WIDTH = 4", "threads = len('four')", "line 8: 'threads' is not a literal; pin it"),
    "argument is computed": ("threads=WIDTH * 32", "threads=choose()", r"line 13: 'threads=choose\(\)' is not pinned"),
    "arguments are computed": ("threads=WIDTH * 32", "**choose()", r"line 13: '\*\*choose\(\)' is not pinned"),
    "a line that some readers end": ("WIDTH = 4", "WIDTH = 4  # it\u2028import os", "ends a line for some readers"),
    "a form feed": ("WIDTH = 4", "WIDTH = 4  # it\f", "ends a line for some readers"),
    "a bare carriage return": ("WIDTH = 4", "WIDTH = 4\r# coding: utf-7", "ends a line for some readers"),
    "a function on two lines": ("WIDTH = 4", "def\\\n kernel(a):\n    return a", "another text may be read"),
    "a function behind a text": ("WIDTH = 4", 'PAIR = ["""\n""", lambda a: a]', "another text may be read"),
    "a star after lambda": ("WIDTH = 4", "take = (lambda*a: 0)", "another text may be read"),
    "a variable as an annotation": (
        "WIDTH = 4", 'WORD = "f()"\ndef size(a: WORD):\n    return a', "the annotation 'WORD' may be a text"
    ),
    "an argument as an annotation": (
        "WIDTH = 4", "def outer(word):\n    def size(a: list[word]):\n        return a", "'word' may be a text"
    ),
    "a text made for an annotation": (
        "WIDTH = 4", "def size(a: str('f()')):\n    return a", "may be a text; write the type"
    ),
    "an element as an annotation": ("WIDTH = 4", "def size(a: CONFIG['word']):\n    pass", "may be a text; write"),
    "a field's name further on": (
        "WIDTH = 4",
        "class P:\n    mm = 3\n\n    def go(self, b):\n        return self.a.mm(b)",
        "'self.a.mm' calls the library",
    ),
    "a lever of a function": ("WIDTH = 4", "def f():\n    global threads\n    threads = 64", "'threads' is not pinned"),
    "options from a call": ("problem.dims", "T.jit(compile_flags=pick())", "'compile_flags=pick\\(\\)' is not pinned"),
    "a float of its own": ("WIDTH = 4", "def float(x):\n    pass\n\n\nWIDTH = float(3)", "'WIDTH' is not a literal"),
    "a module in a class": ("WIDTH = 4", "class Own:\n    import torch as t", "an import in a class"),
    "a module deep in a class": ("WIDTH = 4", "class Own:\n    if 1:\n        import torch", "an import in a class"),
    "a name of two modules": (
        "WIDTH = 4", "import torch as z\ndef size():\n    import math as z", "'z' is imported from two places"
    ),
    "a module of the families": ("WIDTH = 4", "from kernels import hopper\n\nx = [hopper]", "'hopper' is a module"),
    "a module beside a family": ("WIDTH = 4", "from kernels.gemm import ring\n\nx = [ring]", "'ring' is a module"),
    "another module of TileLang": ("problem.dims", "T.pdl.tirx.tvm.topi", "'T.pdl.tirx.tvm.topi' is not what"),
    "a module that runs": ("WIDTH = 4", "import torch.hub", "import of 'torch.hub' is not allowed"),
    "TileLang's tests": ("WIDTH = 4", "import tilelang.testing", "import of 'tilelang.testing' is not allowed"),
    "fields of a dataclass": ("WIDTH = 4", "from dataclasses import fields", "'fields' is not allowed"),
    "a metaclass": ("WIDTH = 4", "class Own(metaclass=Other):\n    pass", "has a keyword, such as metaclass"),
    "a type as a base": ("WIDTH = 4", "from typing import Type", "'Type' is not allowed"),
    "a type of a type": ("WIDTH = 4", "made = type(3)('X', (), {})", "'type' may only be compared"),
    "an enum made by a call": (
        "WIDTH = 4", "from enum import Enum\n\nmade = Enum('E', [('A', 1)])", "an enum may only be the base"
    ),
    "an enum made by its own": (
        "WIDTH = 4", "from enum import Enum\nclass E(Enum):\n    pass\nmade = E('F', [('A', 1)])", "it makes no other"
    ),
    "two decorators of a class": (
        "WIDTH = 4", "@T.macro\n@T.prim_func\nclass Own:\n    pass", "has several decorators"
    ),
    "a kernel's adapter": ("problem.dims", "kernel.adapter.lib_generator", "'adapter' is not allowed"),
    "a product in place": ("problem.dims", "out.addmm_(a, b)", "'out.addmm_' calls the library"),
    "a product by a method": ("problem.dims", "a.inner(b)", "'a.inner' calls the library"),
    "a field's name on another": (
        "WIDTH = 4", "class Tiles:\n    matmul = 16\n\ndef product(a):\n    return a.matmul(a)", "'a.matmul' calls"
    ),
    "a method of a class of torch": (
        "WIDTH = 4", "import torch\n\nt = torch.Tensor\nt.mul = 3", "'t.mul' is not the iteration's own"
    ),
    "another object as self": ("WIDTH = 4", "def change(self):\n    self.mul = 3", "'self' is the first argument"),
    "an object's object": (
        "WIDTH = 4",
        "class P:\n    def __init__(self):\n        self.k = 1\n        self.k.x = 3",
        "'self.k.x' is not the iteration's own",
    ),
    "a module that a family imports": (
        "WIDTH = 4", "from kernels.flash_attention.forward import kept_maxima\n\nx = [kept_maxima]", "is a module"
    ),
    "a module of nobody's": ("WIDTH = 4", "from . import x", "line 8: relative imports are not allowed"),
    "a profiler": ("problem.dims", "kernel.get_profiler().do_bench()", "'do_bench' is not allowed"),
    "a source's kernel": ("problem.dims", "T.call_kernel('/tmp/other.cu')", "'call_kernel' is not allowed"),
    "a lever in a tuple": ("WIDTH = 4", "threads, num_stages = pick(), pick()", "'threads' is not pinned by"),
    "a lever in a branch": ("WIDTH = 4", "if problem:\n    THREADS = pick()", "'THREADS' is not pinned by a statement"),
    "a lever in a loop": ("WIDTH = 4", "for num_stages in pick():\n    pass", "'num_stages' is not pinned"),
    "CONFIG takes a literal": ("block_M=128", "**{'threads': 64}", r"line 7: CONFIG: '\*\*' is not a literal"),
    "a library's sort": ("WIDTH = 4", "import torch\n\ntorch.sort(a, out=b)", "'torch.sort' calls the library"),
    "a docstring of blanks": ('"""One idea, said in one sentence."""', '"""\n   \n"""', "line 1: no docstring"),
    "what reads a file": ("problem.dims", "repr(license)", "'license' is not allowed"),
    "a mangled name": ("problem.dims", "problem._Printer__filenames", "'_Printer__filenames' is not allowed"),
    "a source from a file": ("problem.dims", "T.CUDASourceCodeKernel(1)", "'CUDASourceCodeKernel' is not allowed"),
    "a computed include": ("WIDTH = 4", "TEXT = '\\n#include H\\n'", "brings in a file"),
    "bytes of a file": ("WIDTH = 4", "TEXT = 'asm(\".incbin x\");'", "brings in a file"),
    "no PARENT": ('PARENT = "iter000_library"', "", "no PARENT"),
    "PARENT is missing": ("iter000_library", "iter000_nothing", "line 6: PARENT 'iter000_nothing' is not another"),
    "PARENT is itself": ("iter000_library", "iter001_idea", "line 6: PARENT 'iter001_idea' is not another iteration"),
    "PARENT is None": ('"iter000_library"', "None", "line 6: PARENT is None; only iter000 has no parent"),
    "PARENT is no name": ('"iter000_library"', "7", "line 6: PARENT must be the name of an iteration"),
    "PARENT holds a null byte": ("iter000_library", "iter000_library\\0", "line 6: PARENT"),
    "PARENT is a path": ("iter000_library", "../me/iter000_library", "line 6: PARENT"),
}  # fmt: skip


OWN_FIELDS = {
    "a field": "class Tiles:\n    mm: int",
    "a default": "class Tiles:\n    mm = 16",
    "a method": "class Tiles:\n    def mm(self):\n        return 16",
}


@pytest.mark.parametrize("own", OWN_FIELDS.values(), ids=OWN_FIELDS)
def test_a_field_of_its_own_may_be_called_like_the_library(folder: Path, own: str) -> None:
    check(folder, GOOD.replace("WIDTH = 4", f"WIDTH = 4\n\n\n{own}").replace("WIDTH *", "Tiles.mm *"))
    with pytest.raises(Breach, match=r"'torch\.mm' calls the library"):
        check(folder, GOOD.replace("WIDTH = 4", f"WIDTH = 4\n\n\n{own}").replace("WIDTH *", "torch.mm *"))
    with pytest.raises(Breach, match=r"'Tiles\.mm' calls the library"):
        check(folder, GOOD.replace("WIDTH *", "Tiles.mm *"))


@pytest.mark.parametrize(("old", "new", "says"), BREACHES.values(), ids=BREACHES)
def test_a_rule_broken_once_is_named(folder: Path, old: str, new: str, says: str) -> None:
    assert old in GOOD
    with pytest.raises(Breach, match=says) as breach:
        check(folder, GOOD.replace(old, new, 1))
    assert "\n" not in str(breach.value)


def test_what_the_device_shows_may_be_internal_to_torch(folder: Path) -> None:
    check(folder, GOOD.replace("WIDTH = 4", "import torch\n\nsleep = torch.cuda._sleep"))
    with pytest.raises(Breach, match="'__closure__' is not allowed"):
        check(folder, GOOD.replace("WIDTH = 4", "import torch\n\ncell = torch.cuda._sleep.__closure__"))


def test_a_keyword_with_two_values_is_pinned_by_neither() -> None:
    module = ast.parse("family(block_M=1, threads=3)\ndef never():\n    family(block_M=2, threads=3)\n")
    assert contract.literals(module) == {("threads", "3")}


def test_a_file_that_is_no_text_is_refused(folder: Path) -> None:
    path = folder / "iter001_idea.py"
    path.write_bytes(b"\xff\xfe not utf-8")
    with pytest.raises(Breach, match="cannot be read as Python|does not parse"):
        contract.check(Tree(folder.parents[5]).parse(path))


def test_nesting_that_exhausts_the_parser_is_refused(folder: Path) -> None:
    for deep in ("(" * 500 + ")" * 500, "-" * 50_000 + "1", "+".join("1" * 50_000)):
        with pytest.raises(Breach):
            check(folder, GOOD.replace("WIDTH = 4", f"WIDTH = {deep}"))


def test_what_parses_and_is_too_deep_to_print_is_refused(folder: Path) -> None:
    with pytest.raises(Breach, match=r"cannot be read as Python: .*recursion"):
        check(folder, GOOD.replace("threads=WIDTH * 32", f"threads=g(){'+1' * 900},"))
    with pytest.raises(Breach, match=r"line 13: 'N\.a\.a.* calls the library"):
        check(folder, GOOD.replace("threads=WIDTH * 32", f"threads=N{'.a' * 900}.matmul(),"))


def test_a_number_of_thousands_of_digits_is_refused(folder: Path) -> None:
    with pytest.raises(Breach, match="cannot be read as Python"):
        check(folder, GOOD.replace("block_M=128", f"block_M=0x{'f' * 9000}"))


def test_a_repeat_of_an_earlier_iteration_is_named(folder: Path) -> None:
    check(folder, GOOD)
    with pytest.raises(Breach, match=r"byte for byte the same as iter001_idea\.py"):
        check(folder, GOOD, "iter002_again")


def test_a_number_taken_twice_is_named(folder: Path) -> None:
    check(folder, GOOD)
    with pytest.raises(Breach, match=r"number 001 is taken twice: iter001_idea\.py"):
        check(folder, GOOD.replace("One idea", "Another"), "iter001_other")


def test_a_config_that_python_cannot_make_pins_nothing() -> None:
    assert contract.levers(ast.parse("CONFIG = dict(x={[]: 1})")) is None


def test_a_folder_with_an_iteration_s_name_is_no_fault_of_another(folder: Path) -> None:
    check(folder, GOOD)
    (folder / "iter001_other.py").mkdir()
    check(folder, GOOD)


def shipped() -> dict[str, list[Iteration]]:
    """The iterations of each GPU key's problems."""
    tree, found = Tree(ROOT), dict[str, list[Iteration]]()
    for key in sorted(path.name for path in (ROOT / "tuning").iterdir() if path.is_dir()):
        for iteration in tree.scan(key, Selection())[0]:
            found.setdefault(f"{key}/{iteration.shape_key}", []).append(iteration)
    return found


def breach(iteration: Iteration) -> str | None:
    try:
        contract.check(iteration)
    except Breach as found:
        return str(found)
    return None


SHIPPED = shipped()


def test_no_file_that_ships_is_misplaced() -> None:
    tree = Tree(ROOT)
    assert [each.reason for key in ("cpu", "h100", "h200") for each in tree.scan(key, Selection())[1]] == []


@pytest.mark.parametrize("problem", SHIPPED)
def test_all_that_ships_keeps_the_contract(problem: str) -> None:
    assert [(each.name, said) for each in SHIPPED[problem] if (said := breach(each))] == []


ALLOWED = {
    "a pass configuration": "import tilelang\n\nOPTIONS = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}",
    "arithmetic over constants": 'SCALE = 1.0 / 8**0.5\nHALF = CONFIG["block_M"] // 2',
    "a dataclass": "from dataclasses import dataclass\n\n@dataclass(frozen=True)\nclass Tile:\n    rows: int",
    "a family's function": "from kernels.gemm import pipelined\n\nfamilies = [pipelined]",
    "a layout": "from tilelang.layout import make_swizzled_layout",
    "a layout by its path": "import tilelang\n\nlayout = tilelang.layout.make_swizzled_layout",
    "a policy": "from tilelang.tileop.base import GemmWarpPolicy",
    "a target": 'from tilelang import tvm\n\ntarget = tvm.target.Target("c")',
    "tensor IR": "infinity = T.tir.max_value",
    "a stream of torch": "import torch\n\nstream = torch.cuda.current_stream",
    "an annotation of words": 'from typing import Literal\n\nside: Literal["left", "right"] = "left"',
    "a tensor's annotation": 'def kernel(A: T.Tensor((8, 8), "float32")):\n    return A',
    "a union in an annotation": "def size(a: int | None, b: list[int]) -> tuple[int, ...]:\n    return (a, b)",
    "an object of its own": (
        "class Own:\n    def __init__(self):\n        self._a = 1\n\n    def a(self):\n        return self._a"
    ),
    "an enum": "from enum import Enum\n\nclass Order(Enum):\n    ROWS = 1",
    "a type that is compared": "def size(a):\n    return type(a) is int",
    "slots and an order": "class Tile:\n    __slots__ = ()\n\n    def __lt__(self, other):\n        return True",
    "a variable called F": "def sizes(problem):\n    N, F = problem.dims\n    return (N, F)",
    "a list that is sorted": "def order(sizes):\n    sizes.sort(key=abs)\n    return sizes",
    "a named tuple": "from typing import NamedTuple\n\nclass Tile(NamedTuple):\n    m: int\n\nt = Tile(1)._replace()",
    "a base's beginning": "class A(B):\n    def __init__(self):\n        super().__init__()",
    "constants of modules": "import math\n\nDTYPE = T.bfloat16\nLOG2_E = math.log2(math.e)\nLEAST = float('-inf')",
    "a lever by arithmetic": "def split(kernel, M):\n    return kernel(num_splits=max(1, M // 128), num_heads=int(M))",
    "prose of a docstring": 'def swizzle():\n    """Order tiles so that the memory system (L2) sees each once."""',
    "words about optimizing": 'said = "optimize (2) of it"',
    "a comment in a source": 'source = "// none\\n#pragma unroll\\nint x; /* nothing */"',
}


@pytest.mark.parametrize("written", ALLOWED.values(), ids=ALLOWED)
def test_what_engineers_write_is_allowed(folder: Path, written: str) -> None:
    check(folder, GOOD.replace("WIDTH = 4", f"WIDTH = 4\n{written}"))


def test_a_long_text_takes_no_long_time_to_read() -> None:
    """Each would take minutes if it were read anew from each of its characters."""
    for text in ("#include<" * 25_000, '"' + '\\"' * 100_000, "/*" * 100_000, "__attribute__ " * 15_000):
        vocabulary.refused_source(text, vocabulary.OPTIONS_IN_TEXT)


@pytest.mark.parametrize(
    "option",
    [
        "-O2 -include /tmp/x.h", "-Wp,-include,/tmp/x.h", "-Wl,--wrap=f", "-l:lib.so", "lib.so", "/x.cpp", "-T,x.ld",
        "-fprofile-use=x", "--compiler-options=-include,/x", '-Xcompiler "-include /x"', "-Xlinker", "@flags",
    ],
)  # fmt: skip
def test_an_option_that_brings_in_a_file_is_refused(option: str) -> None:
    assert vocabulary.refused_option(option)


@pytest.mark.parametrize(
    "option", ["-O3", "-march=native", "-arch=sm_90a", "--use_fast_math", "-std=c++17", "-DSCALE=1.5", "-Xptxas=-v"]
)
def test_a_plain_option_is_not(option: str) -> None:
    assert vocabulary.refused_option(option) is None


def test_each_module_in_a_language_of_tilelang_is_known() -> None:
    """One that is not would lead to all that it imports."""
    for kind in ("", "cpu.", "cuda.", "metal.", "rocm."):
        held = vars(import_module(f"tilelang.{kind}language"))
        modules = {name for name, value in held.items() if isinstance(value, ModuleType) and not name.startswith("_")}
        assert modules <= vocabulary.WITHIN_TILELANG

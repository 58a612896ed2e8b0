"""The vocabulary: what an iteration's source may import, name and say, read without importing it.

A module is named only as the beginning of a path, such as ``torch.empty``. So what leads out of it is always read here.
"""

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from harness.judge import annotations, classes
from harness.judge.breach import Breach, bound, root_name, unwound
from harness.judge.classes import OWN_METHODS, OwnClasses
from harness.judge.facts.hashes import FAMILIES
from harness.judge.facts.import_reader import imports, imports_of

ALLOWED_IMPORTS: Final = frozenset(
    {
        "__future__", "collections", "dataclasses", "enum", "functools", "harness.iteration", "itertools", "kernels",
        "math", "operator", "tilelang", "torch", "typing",
    }
)  # fmt: skip
OTHER_MODULES: Final = ALLOWED_IMPORTS - {"math", "operator"}  # those two are names in other modules too
BASELINE_IMPORT: Final = "baselines"
FORBIDDEN_IMPORTS: Final = ("tilelang.autotuner", "tilelang.carver", "torch.nn", "torch.utils", "torch.ops", "torch._")
FRONT: Final = ("attention", "front", "linear", "matmul", "pinned", "warm_up", "*")  # of the families' package
# What may be named of a module that has more than an iteration needs; of the others all but what is forbidden.
ALLOWED_OF: Final = {
    "collections": frozenset({"abc", "ChainMap", "Counter", "OrderedDict", "defaultdict", "deque", "namedtuple"}),
    "dataclasses": frozenset({"KW_ONLY", "asdict", "astuple", "dataclass", "field", "replace"}),
    "enum": frozenset({"Enum", "Flag", "IntEnum", "IntFlag", "StrEnum", "auto", "unique"}),
    "functools": frozenset({"cache", "cmp_to_key", "lru_cache", "partial", "reduce"}),
    "harness.iteration": frozenset(
        {"DTYPE_BYTES", "Problem", "Program", "Workspace", "bench_with", "main", "verify_with"}
    ),
    "torch": frozenset(
        {
            "Size", "Tensor", "arange", "as_strided", "bfloat16", "bool", "channels_last", "contiguous_format",
            "device", "double", "dtype", "empty", "empty_like", "empty_strided", "finfo", "float", "float16",
            "float32", "float64", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
            "float8_e8m0fnu", "full", "full_like",
            "half", "iinfo", "inference_mode", "int", "int16", "int32", "int64", "int8", "is_tensor", "long", "no_grad",
            "ones", "ones_like", "preserve_format", "save", "short", "strided", "tensor", "uint16", "uint32", "uint64",
            "uint8", "zeros", "zeros_like",
            "cuda.Event", "cuda.Stream", "cuda._compile_kernel", "cuda._sleep", "cuda.current_device",
            "cuda.current_stream", "cuda.device_count", "cuda.get_device_capability", "cuda.get_device_properties",
            "cuda.is_available", "cuda.is_current_stream_capturing", "cuda.mem_get_info", "cuda.nvtx.range_pop",
            "cuda.nvtx.range_push", "cuda.stream",
            "cuda.synchronize",
        }
    ),
    "typing": frozenset(
        {
            "Annotated", "Any", "Callable", "ClassVar", "Dict", "Final", "Generic", "Iterable", "Iterator", "List",
            "Literal", "Mapping", "NamedTuple", "Optional", "Protocol", "Sequence", "Set", "TYPE_CHECKING", "Tuple",
            "TypeAlias", "TypeVar", "Union", "cast", "overload",
        }
    ),
}  # fmt: skip
# Modules within TileLang and TVM that a path may lead through, and not end with.
WITHIN_TILELANG: Final = frozenset(
    {
        "allocate", "annotations", "ast", "atomic", "base", "builtin", "cluster", "common", "copy_op", "cpu", "cuda",
        "customize", "dtypes", "eager", "experimental", "extras", "fill_op", "fp8", "frame", "gemm_op", "intrinsics",
        "kernel", "language", "layout", "logical", "loop", "math", "math_intrinsics", "meta", "metal", "overrides",
        "parser", "pdl", "proxy", "quantize", "random", "reduce_op", "rocm", "scan_op", "symbolics", "target", "tensor",
        "tile_schedule", "tileop", "tir", "tirx", "transform", "tvm", "utils", "warp_specialize", "warpgroup",
    }
)  # fmt: skip
IMPORTED_OF: Final = {"torch": frozenset({"cuda"}), "tilelang": WITHIN_TILELANG | {"jit"}}
_MODULES: Final = "|".join(sorted(WITHIN_TILELANG))
_OF_TIR: Final = (
    "analysis|backend|buffer|entry|exports|expr|function|functor|generic|ir|op|pipeline|script|stmt|stmt_functor"
)
# What an iteration names of TileLang and TVM: no files, caches, compilers, registries, nor modules of Python within.
ALLOWED_OF_TILELANG: Final = re.compile(
    "|".join(
        (
            rf"((cpu|cuda|metal|rocm)\.)?language\.(?!({_MODULES}|np)\b)[A-Za-z]\w*",
            rf"(language\.)?(tvm\.)?tirx?\.(?!({_MODULES}|{_OF_TIR}|np)\b)[A-Za-z]\w*\Z",
            r"(compile|jit|lazy_jit|disable_cache|cdiv|next_power_of_2)\Z",
            r"((jit\.)?JITKernel|(transform\.)?PassConfigKey|(layout\.)?(Layout|Fragment))\b",
            r"layout\.make_\w+|((cuda|rocm)\.)?intrinsics\.(\w+\.)*((make|get)_\w+|\w+Emitter)\Z",
            r"math\.\w+\Z|quantize\.\w+\Z|extras\.\w+|utils\.(tensor\.)?map_torch_type\Z",
            r"tileop\.base\.GemmWarpPolicy\b|tvm\.(target\.Target|DataType)\b",
        )
    )
)
FAMILY_MODULES: Final = frozenset({"T", "ir", "np", "tvm"})  # names that families give to modules of others
FORBIDDEN_NAMES: Final = frozenset(
    {
        "AutoTuner", "autotune", "carver", "ctypes", "relay", "cublas", "cudnn", "cutlass", "compile_kernel",
        "eval", "exec", "__import__", "globals", "locals", "vars", "getattr", "setattr", "delattr", "open", "modules",
        "cell_contents", "__closure__", "__code__", "__defaults__", "__dict__", "__globals__", "__kwdefaults__",
        "__builtins__", "attrgetter", "methodcaller", "numpy", "from_numpy", "__array__", "from_dlpack", "to_dlpack",
        "__dlpack__", "sys", "os", "gc", "inspect", "importlib", "builtins", "subprocess", "pathlib", "threading",
        "tb_frame", "gi_frame", "cr_frame", "ag_frame", "f_back", "f_locals", "f_globals", "f_builtins", "f_code",
        "gi_code", "cr_code", "ag_code", "CodeType", "FunctionType", "codecs", "linecache", "traceback",
        "pickle", "marshal", "loads", "breakpoint", "load_json", "load_module", "load_library",
        "get_global_func", "register_func", "register_global_func", "get_type_hints", "update_wrapper", "from_file",
        "from_database", "enable_cache", "import_module", "obj", "format", "format_map",
        # of a compiled kernel: it leads to ctypes, to a compiler, and to files
        "adapter", "artifact", "compile_lib", "device_mod", "executable", "get_exportable_executable", "host_mod",
        "lib_generator", "load_lib", "rt_mod", "CUDASourceCodeKernel", "call_kernel", "export_library", "export_ptx",
        "export_sass", "export_sources", "from_tilelang_function",
        # what tunes
        "do_bench", "get_profiler", "get_tuner_result", "par_compile", "run_once", "update_tuner_result",
        # site adds these to Python; they read files
        "license", "credits", "copyright", "help", "exit", "quit",
    }
)  # fmt: skip
FORBIDDEN_IN_TEXT: Final = FORBIDDEN_NAMES - {
    "format",
    "obj",
    "license",
    "credits",
    "copyright",
    "help",
    "exit",
    "quit",
}
_MANGLED: Final = re.compile(r"_\w+?__\w")  # a private name of another class
BUILTIN_COMPILER: Final = "compile"  # elsewhere it is TileLang's
LIBRARY_CALLS: Final = frozenset(
    {
        "matmul", "mm", "bmm", "mv", "addmm", "baddbmm", "addbmm", "einsum", "tensordot", "linear", "_scaled_mm",
        "scaled_dot_product_attention", "functional", "dot", "inner", "chain_matmul", "__matmul__", "__rmatmul__",
        "imatmul", "multi_dot", "addmv", "addr", "ger", "outer", "vdot", "kron", "cov", "matrix_power", "matrix_exp",
        "smm", "sspaddmm", "softmax", "log_softmax", "logsumexp", "topk", "sort",
    }
)  # fmt: skip
# Tensors have these methods, and TileLang has none of the same name.
LIBRARY_METHODS: Final = LIBRARY_CALLS - {"linear", "functional"}
OF_NAMED_TUPLES: Final = frozenset({"_asdict", "_fields", "_make", "_replace"})  # documented, in spite of the form
TORCH_NAMES: Final = frozenset({"torch", "F"})
# What torch takes from elsewhere, so that no hash of the row covers it.
TORCH_BRINGS: Final = frozenset({"classes", "from_file", "hub", "library", "load", "ops", "package"})
SEEN_ON_THE_DEVICE: Final = "cuda"  # of torch: the judge reads what a call launches there
OWN_DUNDERS: Final = frozenset({"__all__", "__file__", "__main__", "__name__", "__slots__"})
# What gives the compiler other options than CONFIG and the program do; TileLang itself writes pragmas that unroll.
OPTIONS_IN_SOURCE: Final = re.compile(
    r"#\s*pragma\s+(GCC|clang)\s+(\w*options|optimize|target)"
    r"|(__attribute\w*|\bgnu|\bclang)\b[^;{}]{0,200}?\b_*(optimize|target|target_clones)_*\s*\("
)
OPTIONS_IN_TEXT: Final = re.compile(rf"{OPTIONS_IN_SOURCE.pattern}|#\s*pragma\s+(GCC|clang)\b|_Pragma")
FILES_IN_SOURCE: Final = re.compile(
    r'#\s*(include|include_next|import|embed)\s*("|[A-Za-z_(]|<\s*/|<[^>\n]{0,200}\.\.)|\.inc(bin|lude)\b|\?\?='
)
UNREADABLE_SOURCE: Final = re.compile(r'\bu?8?[LU]?R"[^\s()\\"]{0,16}\(|\?\?/')  # comments may begin anywhere there
LIBRARY_IN_SOURCE: Final = re.compile(
    r"\bdlfcn\b|\bdl(m?open|v?sym)\b|\bcblas_\w+|\b[sd]gemm_?\b|\b(system|popen|fork|exec[lv]p?e?)\s*\("
)
# Options that name files, or give the compiler's work to another program.
FILES_IN_OPTIONS: Final = re.compile(
    r"@|--?(include|imacros|isystem|iquote|idirafter|sysroot|specs|fplugin|wrapper|ccbin|compiler-bindir|optf|options-file"
    r"|pre-include|include-path|library|library-path|dlink|input-drive|fprofile-use|fauto-profile|X(archive|assembler|clang|linker|nvlink|preprocessor))\b"
    r"|-[BILTlx]|-W[alp]\Z|[^-]\S*/|[^-\s]\S*\.(a|c|cc|cpp|cu|cuh|h|hpp|ii?|o|s|so)\Z|/"
)
_OPTION_PARTS: Final = re.compile(r"[\s,=\"']+")
_SPLICED: Final = re.compile(r"\\[ \t]*\r?\n")
_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\\n])*(?:"|\n|\Z)|/\*.*?(?:\*/|\Z)|//[^\n]*', re.DOTALL)  # text, or a comment
_DOTTED: Final = re.compile(r"\w+(\.\w+)*", re.ASCII)
_DUNDER: Final = re.compile(r"__\w+__")


def check(module: ast.Module, *, is_baseline: bool, modules: Collection[str] = ()) -> None:
    """Raise Breach at what an iteration may not import, name or say; iteration 0 may name what it likes.

    ``modules`` are names of the source that stand for modules of the families.
    """
    _imports(module, is_baseline=is_baseline)
    if is_baseline:
        return
    nodes = list(ast.walk(module))
    known, own = _modules(nodes), OwnClasses.of(nodes)
    _bound(nodes)
    annotations.check(nodes)
    classes.check(nodes)
    parts = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    harmless = set(map(id, _harmless(nodes, known)))
    for node in nodes:
        match node:
            case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
                raise Breach(
                    node.lineno, "the @ operator calls the library; the kernel must compute the product itself"
                )
            case ast.Name(id=name):
                _name(node.lineno, name)
                if name == BUILTIN_COMPILER:
                    raise Breach(node.lineno, "'compile' is Python's own; name TileLang's in full: tilelang.compile")
                place = known.get(name, FAMILIES).partition(".")[0]
                if id(node) not in parts and (place not in (FAMILIES, "F") or name in modules):
                    raise Breach(node.lineno, f"'{name}' is a module; name what you need of it, such as {name}.…")
            case ast.Attribute() if id(node) not in parts and id(node) not in harmless:
                _path(node, known, own)
            case ast.Constant(value=str(text)) if id(node) not in harmless:
                _text(node.lineno, text)
            case ast.MatchClass():
                _pattern(node, known, own)
            case ast.ImportFrom(module=str(place), names=aliases):
                for alias in aliases:
                    _imported(node.lineno, place, alias.name)
            case ast.keyword(arg=str(name)) if name.startswith("__"):
                _name(node.lineno, name)


def _harmless(nodes: Sequence[ast.AST], known: Collection[str]) -> Iterator[ast.expr]:
    """What only looks forbidden: prose of docstrings, a list that is sorted in its place, and a base's ``__init__``."""
    for node in nodes:
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() if ast.get_docstring(node) is not None:
                match node.body[0]:
                    case ast.Expr(value=text):
                        yield text
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="sort") as path, args=[], keywords=more)
            ) if name not in known and all(each.arg in ("key", "reverse") for each in more):
                yield path
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[]), attr="__init__"):
                yield node


def _bound(nodes: Sequence[ast.AST]) -> None:
    """Whatever the source binds has a name that it may use."""
    methods = {name for node in nodes if isinstance(node, ast.FunctionDef) and (name := node.name) in OWN_METHODS}
    imported = ((each.bound, each.line) for node in nodes for each in imports_of(node))
    declared = (
        (name, node.lineno) for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names
    )
    for name, line in (*bound(nodes), *imported, *declared):
        if name not in methods:
            _name(line, name)


def refused_source(text: str, options: re.Pattern[str] = OPTIONS_IN_SOURCE) -> str | None:
    """The complaint about a source, or a part of one, that gives the compiler options or files of its own."""
    whole = _SPLICED.sub("", text).replace("%:", "#")  # ``%:`` is another # of C
    plain = _TOKEN.sub(lambda token: " " if token[0].startswith("/") else token[0], whole)
    for form, why in (
        (options, "gives the compiler other options than CONFIG; pass them as compile_flags"),
        (FILES_IN_SOURCE, "brings in a file that no hash of the row covers"),
        (UNREADABLE_SOURCE, "hides what the compiler reads; write it plainly"),
        (LIBRARY_IN_SOURCE, "calls a library or another program; the kernel must compute by itself"),
    ):
        if found := form.search(plain) or form.search(whole):
            return f"'{found[0]}' {why}"
    return None


def refused_option(option: str) -> str | None:
    """The complaint about a compiler's option that names a file or another program."""
    if any(FILES_IN_OPTIONS.match(part) for part in _OPTION_PARTS.split(option.strip())):
        return f"the option '{option}' brings in what no hash of the row covers"
    return None


def _imports(module: ast.Module, *, is_baseline: bool) -> None:
    bound = dict[str, str]()
    for each in imports(module):
        if each.relative:
            raise Breach(each.line, "relative imports are not allowed; name the module in full")
        for name in (each.dotted, each.full):
            if name.startswith(FORBIDDEN_IMPORTS):
                raise Breach(each.line, f"import of '{name}': tuning and library calls do not belong in an iteration")
        top = each.module[0]
        place = top if each.bound == top else each.full
        if bound.setdefault(each.bound, place) != place:
            raise Breach(each.line, f"'{each.bound}' is imported from two places")
        if each.full.split(".")[:2] in ([FAMILIES], *([FAMILIES, name] for name in FRONT)):
            raise Breach(each.line, f"import of '{each.full}': it takes other rows' levers; import a family's function")
        if top == BASELINE_IMPORT:
            if not is_baseline:
                raise Breach(each.line, "only iter000 imports baselines")
        elif top in IMPORTED_OF and not IMPORTED_OF[top].issuperset(each.module[1:]):
            raise Breach(each.line, f"import of '{each.dotted}' is not allowed; {top} brings what an iteration needs")
        elif top not in ALLOWED_IMPORTS and each.dotted not in ALLOWED_IMPORTS:
            allowed = ", ".join(sorted(ALLOWED_IMPORTS))
            raise Breach(each.line, f"import of '{each.dotted}' is not allowed; allowed: {allowed}")


def _modules(nodes: Sequence[ast.AST]) -> dict[str, str]:
    """The modules that names of a source stand for, and what it has of the families."""
    found = {name: name for name in TORCH_NAMES}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                found[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            top = (node.module or "").partition(".")[0]
            for alias in node.names:
                if top == FAMILIES or (top == "tilelang" and alias.name in WITHIN_TILELANG):
                    found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def _path(outermost: ast.Attribute, known: Mapping[str, str], own: OwnClasses) -> None:
    """Check a path such as ``torch.cuda.Event.record``, all of its names at once."""
    root, (_, names) = root_name(outermost), unwound(outermost)
    own_names = own.names_of(outermost)
    said = ".".join((root or "…", *names))
    line, place = outermost.lineno, known.get(root or "", "")
    of_torch = place.partition(".")[0] in TORCH_NAMES
    for position, name in enumerate(names):
        plain = name if name.startswith("__") else name.removesuffix("_")  # a_ writes in place what a makes
        is_librarys = plain in LIBRARY_METHODS and (position or name not in own_names.fields)
        if is_librarys or (plain in LIBRARY_CALLS and of_torch):
            raise Breach(line, f"'{said}' calls the library; that belongs to iter000")
        _name(line, name)
        seen = of_torch and SEEN_ON_THE_DEVICE in (*place.split("."), *names[:position])
        internal = name.startswith("_") and name not in OF_NAMED_TUPLES and name != "__name__"
        if internal and not (root == "self" and not position and name in own_names.private) and not seen:
            raise Breach(line, f"'{said}' is internal to {root or 'its object'}; use what is documented")
        if of_torch and name in TORCH_BRINGS:
            raise Breach(line, f"'{said}' brings in what no hash of the row covers")
        if name in OTHER_MODULES:
            raise Breach(line, f"'{said}' leads to the module {name}; import it by itself")
    if not isinstance(outermost.ctx, ast.Load) and id(outermost) not in own.made:
        raise Breach(line, f"'{said}' is not the iteration's own; it sets attributes of self, in __init__ and its like")
    if place:
        _of_module(line, said, f"{place}.{'.'.join(names)}")


def _of_module(line: int, said: str, full: str) -> None:
    """``full`` is the path in full, from the module's own name on."""
    top, _, rest = full.partition(".")
    if top == "tilelang" and not ALLOWED_OF_TILELANG.match(rest):
        if rest.rpartition(".")[2] in WITHIN_TILELANG:
            raise Breach(line, f"'{said}' is a module; name what you need of it, such as {said}.…")
        raise Breach(line, f"'{said}' is not what an iteration may name of TileLang; see docs/reference/contract.md")
    if top == FAMILIES and (strange := {*FRONT, *FAMILY_MODULES}.intersection(rest.split("."))):
        raise Breach(line, f"'{said}' leads from the families to {min(strange)}; import what you need by itself")
    for module, allowed in ALLOWED_OF.items():
        if f"{full}.".startswith(f"{module.partition('.')[0]}."):
            inner = full.removeprefix(f"{module}.").split(".") if full.startswith(f"{module}.") else []
            if not any(".".join(inner[:length]) in allowed for length in range(1, len(inner) + 1)):
                raise Breach(line, f"'{said}' is not allowed in an iteration; of {module} it may name what is listed")


def _pattern(node: ast.MatchClass, known: Mapping[str, str], own: OwnClasses) -> None:
    if node.patterns:
        raise Breach(node.lineno, "a class is matched by position, which names attributes in a text; match by name")
    for name in node.kwd_attrs:
        _path(ast.Attribute(ast.Constant(None), name, ast.Load(), lineno=node.lineno), known, own)


def _name(line: int, name: str) -> None:
    if name in FORBIDDEN_NAMES or _MANGLED.match(name) or (name.startswith("__") and name not in OWN_DUNDERS):
        raise Breach(line, f"'{name}' is not allowed in an iteration")


def _imported(line: int, module: str, name: str) -> None:
    if name == "*":
        raise Breach(line, f"import of everything in '{module}'; import by name")
    _name(line, name)
    top = module.partition(".")[0]
    if top in ("torch", "operator") and name in LIBRARY_CALLS:
        raise Breach(line, f"'{name}' of {module} calls the library; that belongs to iter000")
    if top == "torch" and name in TORCH_BRINGS:
        raise Breach(line, f"'{name}' of {module} brings in what no hash of the row covers")
    if name in OTHER_MODULES or name == "operator":
        raise Breach(line, f"'{name}' of {module} is another module; import it by itself")
    if top == FAMILIES and name in FAMILY_MODULES:
        raise Breach(line, f"'{name}' of {module} is another module; import it by itself")
    if top != "tilelang" or name not in WITHIN_TILELANG:  # what is named of a module is checked there
        _of_module(line, name, f"{module}.{name}")


def _text(line: int, text: str) -> None:
    """A string may name no forbidden attribute, and no source in it may change what the compiler reads."""
    if _DOTTED.fullmatch(text):
        for name in text.split("."):
            if name in FORBIDDEN_IN_TEXT or (_DUNDER.fullmatch(name) and name not in OWN_DUNDERS):
                raise Breach(line, f"'{name}' is not allowed in an iteration")
    if complaint := refused_source(text, OPTIONS_IN_TEXT):
        raise Breach(line, complaint)

"""The Python API, from the sources: nothing is imported, so that neither torch nor TileLang is needed."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from docs.generator.schemas import prose
from harness.judge.facts.import_reader import imports_of

ROOT: Final = Path(__file__).resolve().parents[2]
WIDTH: Final = 100
_BETWEEN: Final = re.compile(r", (?![^\[(]*[\])])")  # a comma between parameters, not inside a type


def reference() -> str:
    """What users call, what an iteration imports, and every family of kernels."""
    packages = ["kernels.front", "harness.iteration", *_families()]
    return "\n\n".join(section for package in packages for section in _package(package))


def _families() -> Iterator[str]:
    """The packages below ``kernels/`` that an iteration may import a kernel from."""
    for path in sorted((ROOT / "kernels").glob("*/__init__.py")):
        name = path.parent.name
        if name != "front" and _exported(ast.parse(path.read_text())):
            yield f"kernels.{name}"


def _package(package: str) -> Iterator[str]:
    tree = _parsed(package)
    name = "kernels" if package == "kernels.front" else package
    yield f"## `{name}`\n\n{_summary(tree)}"
    for exported in _exported(tree):
        yield f"### {exported}\n\n{_described(*_found(package, exported))}"


def _described(module: str, node: ast.stmt) -> str:
    if isinstance(node, ast.FunctionDef):
        return _function(node)
    if isinstance(node, ast.ClassDef):
        return _class(node)
    return f"`{ast.unparse(node)}`, in `{module}`."


def _function(node: ast.FunctionDef) -> str:
    return f"```python\n{_signature(node)}\n```\n\n{prose(ast.get_docstring(node) or '')}".strip()


def _signature(node: ast.FunctionDef) -> str:
    """On one line where it fits, else a parameter a line."""
    parameters = _BETWEEN.split(ast.unparse(node.args)) if ast.unparse(node.args) else []
    spaced = [each.replace("=", " = ", 1) if ": " in each else each for each in parameters]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{node.name}({', '.join(spaced)}){returns}"
    return (
        line
        if len(line) <= WIDTH
        else "\n".join([f"{node.name}(", *(f"    {each}," for each in spaced), f"){returns}"])
    )


def _class(node: ast.ClassDef) -> str:
    fields = [ast.unparse(each) for each in node.body if isinstance(each, ast.AnnAssign)]
    parts = ["```python", f"class {node.name}:", *(f"    {field}" for field in fields), "```", ""]
    parts.append(prose(ast.get_docstring(node) or ""))
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")]
    if methods:
        parts += ["", "| attribute | type | what it is |", "|---|---|---|"]
    for method in methods:
        is_property = any(ast.unparse(each) == "property" for each in method.decorator_list)
        name = method.name if is_property else f"{method.name}({ast.unparse(method.args)})"
        returns = ast.unparse(method.returns).replace("|", "\\|") if method.returns else ""
        parts.append(f"| `{name}` | `{returns}` | {_summary(method)} |")
    return "\n".join(parts).strip()


def _found(module: str, name: str) -> tuple[str, ast.stmt]:
    """The module that defines a name, and the definition; follows imports."""
    for node in _parsed(module).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return module, node
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in ast.unparse(node).partition("=")[0]:
            return module, node
        for each in imports_of(node):
            if each.bound == name and each.name:
                return _found(each.dotted, each.name)
    raise LookupError(f"{module} exports {name} and does not define it")


def _exported(tree: ast.Module) -> list[str]:
    """The names in ``__all__``."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def _parsed(module: str) -> ast.Module:
    path = ROOT.joinpath(*module.split("."))
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())


def _summary(node: ast.Module | ast.FunctionDef) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(prose(ast.get_docstring(node) or "").partition("\n\n")[0].split())

"""Structs as Markdown tables, from the JSON Schema that msgspec gives of them."""

import inspect
from collections.abc import Iterable
from typing import Any, Final

import msgspec

Schema = dict[str, Any]
_DEFS: Final = "#/$defs/"


def sections(structs: Iterable[Any]) -> str:
    """One section for each struct, and for each that those hold."""
    tops, components = msgspec.json.schema_components(list(structs))
    return described(tops, components)


def described(tops: Iterable[Schema], components: dict[str, Schema]) -> str:
    """One section for each component that the schemas refer to, directly or not, in the order of first mention."""
    waiting = [name for each in tops for name in _references(each)]
    ordered: dict[str, str] = {}
    while waiting:
        name = waiting.pop(0)
        if name not in ordered:
            ordered[name] = _section(name, components[name])
            waiting += _references(components[name])
    return "\n\n".join(ordered.values())


def kind(schema: Schema) -> str:
    """A short name of a type, such as ``list of number, or null``; a struct becomes a link."""
    if "$ref" in schema:
        return f"[{_title(schema['$ref'])}](#{_title(schema['$ref']).lower()})"
    if "anyOf" in schema:
        return ", or ".join(map(kind, sorted(schema["anyOf"], key=lambda each: each.get("type") == "null")))
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "prefixItems" in schema:
        return f"[{', '.join(map(kind, schema['prefixItems']))}]"
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items') or {})}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {kind(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))


def prose(text: str) -> str:
    """A docstring as Markdown; one that is laid out by indentation stays as it is."""
    clean = inspect.cleandoc(text)
    return f"```text\n{clean}\n```" if "\n  " in clean else clean.replace("``", "`")


def _section(name: str, schema: Schema) -> str:
    parts = [f"### {_title(name)}"]
    if "description" in schema:
        parts.append(prose(schema["description"]))
    if "enum" in schema:
        parts.append(f"One of {', '.join(f'`{each}`' for each in schema['enum'])}.")
    elif "prefixItems" in schema:
        parts.append(f"A JSON array: {kind(schema)}.")
    else:
        needed = schema.get("required", ())
        lines = ["| field | type | may be absent |", "|---|---|---|"]
        for field, each in schema["properties"].items():
            lines.append(f"| `{field}` | {kind(each)} | {'' if field in needed else 'yes'} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _references(schema: Any) -> list[str]:
    """The structs that a schema holds, in its order."""
    if isinstance(schema, dict):
        own = [schema["$ref"].removeprefix(_DEFS)] if "$ref" in schema else []
        return own + [name for each in schema.values() for name in _references(each)]
    return [name for each in schema for name in _references(each)] if isinstance(schema, list) else []


def _title(name: str) -> str:
    return name.removeprefix(_DEFS).rpartition(".")[2]

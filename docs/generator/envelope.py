"""The JSON schema of ``--json``: one envelope, and the data of each verb."""

from pathlib import Path
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec

from harness.cli.app import app
from harness.cli.reply import Envelope, Reply

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def data_types() -> dict[str, Any]:
    """The type of the data of each verb that has ``--json``, by verb."""
    commands = {verb: app[verb].default_command for verb in sorted(app) if not verb.startswith("-")}
    answers = {verb: get_type_hints(command)["return"] for verb, command in commands.items() if command is not None}
    return {verb: get_args(answer)[0] for verb, answer in answers.items() if get_origin(answer) is Reply}


def schema() -> dict[str, Any]:
    """The schema of what ``--json`` prints, in the dialect 2020-12 of JSON Schema."""
    types = data_types()
    (envelope, *of_verbs), parts = msgspec.json.schema_components(
        [Envelope, *types.values()], schema_hook=_path, ref_template="#/$defs/{name}"
    )
    document = parts.pop(envelope["$ref"].rpartition("/")[2])
    rules = [
        {
            "if": {"properties": {"verb": {"const": verb}}},
            "then": {"properties": {"data": {"anyOf": [data, {"type": "null"}]}}},
        }
        for verb, data in zip(types, of_verbs, strict=True)
    ]
    return {"$schema": DIALECT, **document, "title": "tilebench --json", "allOf": rules, "$defs": parts}


def _path(kind: type) -> dict[str, str]:
    if issubclass(kind, Path):
        return {"type": "string"}
    raise NotImplementedError(kind)

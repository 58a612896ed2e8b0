"""What a command printed under ``--json``, held to the schema."""

import json
from functools import cache
from typing import Any

import jsonschema

from docs.generator.envelope import data_types, schema


def envelope(stdout: str | bytes) -> dict[str, Any]:
    """The one document on stdout; it must keep to the schema, and hold the data of its verb."""
    document: dict[str, Any] = json.loads(stdout)
    _validator().validate(document)
    assert document["verb"] in data_types() or document["data"] is None
    return document


def answer(stdout: str | bytes) -> Any:
    """The data in that document."""
    return envelope(stdout)["data"]


@cache
def _validator() -> Any:
    return jsonschema.Draft202012Validator(schema())

"""The command line's reference and its JSON, from the application itself."""

import re

from docs.generator import envelope, schemas
from harness.cli.app import app  # its package registers every verb


def reference() -> str:
    """Every verb with its arguments and options."""
    text = app.generate_docs(output_format="markdown", include_hidden=False)
    text = re.sub(r"^(tilebench [a-z-]+) -m \S+", r"\1", text, flags=re.MULTILINE)  # how this process was started
    _, _, verbs = text.partition("\n## tilebench ")
    sections = sorted(f"## tilebench {section.strip()}" for section in verbs.split("\n## tilebench "))
    return re.sub(r"^\* `[A-Z-]+, (--)", r"* `\1", "\n\n".join(sections), flags=re.MULTILINE)


def json() -> str:
    """The envelope, the data of each verb, and every struct that they hold."""
    schema = envelope.schema()
    fields = "\n".join(f"| `{name}` | {schemas.kind(each)} |" for name, each in schema["properties"].items())
    data = {rule["if"]["properties"]["verb"]["const"]: rule["then"]["properties"]["data"] for rule in schema["allOf"]}
    verbs = "\n".join(f"| `{verb}` | {schemas.kind(each)} |" for verb, each in data.items())
    return "\n".join(
        (
            schemas.prose(schema["description"]),
            f"\n| field | type |\n|---|---|\n{fields}",
            f"\n| verb | its data |\n|---|---|\n{verbs}\n",
            schemas.described(data.values(), schema["$defs"]),
        )
    )

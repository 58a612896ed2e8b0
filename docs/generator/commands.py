"""The command line's reference, from the application itself."""

import re

from harness.cli.app import app  # its package registers every verb


def reference() -> str:
    """Every verb with its arguments and options."""
    text = app.generate_docs(output_format="markdown", include_hidden=False)
    text = re.sub(r"^(tilebench [a-z-]+) -m \S+", r"\1", text, flags=re.MULTILINE)  # how this process was started
    _, _, verbs = text.partition("\n## tilebench ")
    sections = sorted(f"## tilebench {section.strip()}" for section in verbs.split("\n## tilebench "))
    return re.sub(r"^\* `[A-Z-]+, (--)", r"* `\1", "\n\n".join(sections), flags=re.MULTILINE)

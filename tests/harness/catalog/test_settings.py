"""A repository's settings: what is wrong in them is one line with the file and line."""

from pathlib import Path

import pytest

from harness import __version__
from harness.catalog.settings import check_settings
from harness.errors import UsageError


@pytest.mark.parametrize("text", ["", "# a comment", f'requires = "=={__version__}"', 'requires = ">=0.1"'])
def test_settings_that_fit(tmp_path: Path, text: str) -> None:
    (tmp_path / "tilebench.toml").write_text(text)
    check_settings(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nrequire = 1", ":2: unknown field 'require'; known: requires; did you mean requires?"),
        ("\n\n[operators]\npath = 1", ":3: unknown field 'operators'; known: requires"),
        ("a = = 1", ":1: Invalid value"),
        ("\nrequires = 3", ":2: requires must be text, and is a number"),
        ('requires = ">=99"', f":1: tilebench >=99 is required, and this is {__version__}"),
        ('requires = "new"', ":1: 'new' names no versions, as >=0.1 does"),
    ],
)
def test_settings_that_do_not(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "tilebench.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        check_settings(tmp_path)
    assert str(refused.value).startswith(f"{path}{message}")

"""The groups of verbs in ``--help``, each in the order in which a person needs them."""

from typing import Final

from cyclopts import Group

from harness.cli.app import app

GROUPS: Final = {
    "Judge iterations": ("check", "build", "verify", "bench", "watch", "play-off", "reproduce", "foreign"),
    "Write and tune": ("init", "new-operator", "new", "next", "profile", "tune", "tuning"),
    "Read records; nothing is measured": ("leaderboard", "compare", "report", "export", "gather", "publish", "audit"),
    "The machine and the harness": (
        "doctor",
        "versus",
        "bisect",
        "overhead",
        "ceiling",
        "selftest",
        "image",
        "run-in-docker",
    ),
}


def arrange() -> None:
    """Put each verb into its group."""
    for place, (name, verbs) in enumerate(GROUPS.items()):
        group = Group(name, sort_key=place)
        for number, verb in enumerate(verbs):
            app[verb].group = group
            app[verb].sort_key = number

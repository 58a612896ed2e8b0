"""The verbs: where the function of each is, and their groups in ``--help``, each in the order of use."""

from typing import Final

from cyclopts import Group

from harness.cli.app import app

READ: Final = "Read records; nothing is measured"
GROUPS: Final = {
    "Judge iterations": {
        "check": "stages:check",
        "build": "stages:build",
        "verify": "stages:verify",
        "bench": "stages:bench",
        "watch": "stages:watch",
        "play-off": "compare:play",
        "reproduce": "compare:reproduce",
        "freshen": "versus:freshen",
        "foreign": "foreign:foreign",
    },
    "Write and tune": {
        "init": "repository:init",
        "new-operator": "repository:new_operator",
        "adopt": "foreign:adopt",
        "new": "notebook:new",
        "transfer": "notebook:transfer",
        "next": "notebook:show_state",
        "profile": "profile:profile",
        "tune": "tune:tune",
    },
    READ: {
        "leaderboard": "notebook:show_boards",
        "searches": "tune:searches",
        "compare": "compare:compare",
        "report": "notebook:report",
        "export": "compare:export",
        "gather": "notebook:gather",
        "publish": "notebook:publish",
        "audit": "foreign:audit",
    },
    "The machine and the harness": {
        "doctor": "health:examine",
        "versus": "versus:hold",
        "bisect": "versus:bisect",
        "overhead": "health:overhead",
        "ceiling": "health:ceiling",
        "selftest": "health:measure_itself",
        "image": "container:build_image",
        "run-in-docker": "container:run_in_docker",
    },
}


def register() -> None:
    """Make each verb known; its module is imported when it is called, since all of them take half a second."""
    for place, (name, verbs) in enumerate(GROUPS.items()):
        group = Group(name, sort_key=place)
        for number, (verb, function) in enumerate(verbs.items()):
            app.command(f"harness.cli.{function}", name=verb, group=group, sort_key=number)
    app.command("harness.cli.stages:missing_extra", name="missing-extra", show=False)

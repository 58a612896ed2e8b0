"""The stages as nox sessions, such as `nox -s verify bench -- --gpu cpu`; arguments after `--` go to the verb."""

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["check"]


def add(verb: str) -> None:
    @nox.session(name=verb)
    def stage(session: nox.Session) -> None:
        session.run("tilebench", verb, *session.posargs)


for each in ("check", "build", "verify", "bench", "profile", "tune", "leaderboard", "report"):
    add(each)

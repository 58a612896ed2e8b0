"""A Docker engine of the tests' own: from Debian's packages, with a base image by debootstrap, gone without a trace.

`.ci/container` installs the packages. Without `-m container` these tests are skipped: they take minutes and root.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import docker
import pytest
from docker.errors import NotFound
from docker.models.images import Image

from harness.container import image as images
from tests.harness.container.machine import USER, Engine, Host

ROOT: Final = Path(__file__).resolve().parents[3]
HERE: Final = Path(__file__).resolve().parent
BASE: Final = "tilebench-test-base"
NEEDED: Final = ("dockerd", "debootstrap", "git", "make", "setpriv")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = "container" in (config.getoption("markexpr") or "")
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    reason = ""
    if not chosen:
        reason = "needs minutes and a Docker engine of its own: .ci/container runs it"
    elif os.getuid() != 0 or lacking:
        reason = f"needs root and {', '.join(lacking or NEEDED)}"
        if os.environ.get("CI"):
            raise pytest.UsageError(f"the tests of the container cannot run here: {reason}")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.container)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(900))
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def work() -> Iterator[Path]:
    """A folder outside any build's context that other users may enter."""
    folder = Path(tempfile.mkdtemp(prefix="tilebench-container-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def engine(work: Path) -> Iterator[Engine]:
    folder = work / "engine"
    folder.mkdir()
    made = Engine.start(folder)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def client(engine: Engine) -> Iterator[docker.DockerClient]:
    made = engine.client()
    yield made
    made.close()


@pytest.fixture(scope="session")
def base(work: Path, client: docker.DockerClient) -> str:
    """This machine's release, bare, with the certificates that this machine trusts."""
    release = platform.freedesktop_os_release()
    root = work / "base"
    subprocess.run(
        [
            "debootstrap", "--variant=minbase", "--include=ca-certificates",
            f"--components={'main,universe' if release['ID'] == 'ubuntu' else 'main'}",
            release["VERSION_CODENAME"], str(root),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    for path in (Path("/etc/ssl/certs/ca-certificates.crt"), *Path("/usr/local/share/ca-certificates").glob("*.crt")):
        (root / path.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path.relative_to("/"))
    archive = work / "base.tar"
    subprocess.run(["tar", "-C", str(root), "-cf", str(archive), "."], check=True)
    shutil.rmtree(root)
    client.api.import_image(str(archive), repository=BASE)
    archive.unlink()
    return BASE


@pytest.fixture(scope="session")
def wheels() -> Iterator[str]:
    """Folders in which this machine's pip looks for wheels, as addresses that a build on the host's network reaches."""
    told = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    settings = (line.partition("=") for line in told.stdout.splitlines())
    found = {value for key, _, value in settings if key.endswith("find-links")}
    folders = {Path(word) for value in found for word in value.strip("'").split() if Path(word).is_dir()}
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(folder))) for folder in folders]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield " ".join(f"http://127.0.0.1:{server.server_port}/" for server in servers)
    for server in servers:
        server.shutdown()
        server.server_close()


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture(scope="session")
def host(work: Path, engine: Engine, wheels: str) -> Host:
    """The first of the two commands: a clone; a copy of what git would commit, so that it is this tree's code."""
    clone = work / "tilebench"
    clone.mkdir()
    listed = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name)
    home = work / "home"
    home.mkdir()
    for path in (clone, *clone.rglob("*"), home):
        os.chown(path, USER, USER)
    kept = {
        name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.lower().endswith("proxy")
    }
    return Host(
        clone,
        kept
        | {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(home), "DOCKER_HOST": engine.host, "COLUMNS": "200"}
        | ({"PIP_FIND_LINKS": wheels} if wheels else {}),
    )


@pytest.fixture(scope="session")
def image(host: Host, base: str, client: docker.DockerClient) -> Image:
    """This very Dockerfile on the bare base, built as the user would; the CUDA packages are left out."""
    done = host.run(
        "make", "image", f"ARGS=--base {base} --no-cuda --network host", "PYTHON=/usr/bin/python3", seconds=800
    )
    assert done.returncode == 0, done.stderr
    return client.images.get(images.NAME)


@pytest.fixture
def gone(client: docker.DockerClient) -> Iterator[None]:
    """No container is left after a test."""
    yield
    left = client.containers.list(all=True)
    for container in left:
        try:
            container.remove(force=True)
        except NotFound:
            continue
    assert [container.name for container in left] == []

"""Container images as environments: the words that start an interpreter in one, without network and rights."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from harness.errors import InfrastructureError, UsageError, last_line
from harness.machine.repository import code

ENGINES: Final = ("docker", "podman")
INTERPRETER: Final = "python3"
SCRATCH: Final = "/scratch"  # a checkout below /tmp takes the right to write there


def launch(name: str, root: Path) -> tuple[str, tuple[str, ...]]:
    """The image's ID, and the command before the interpreter's own words.

    The repository and the harness are read where they lie. Raises UsageError for an image that is not here,
    InfrastructureError where no engine answers.
    """
    from harness.container.sandbox import PIDS, PLAIN_USER  # here: the engine's SDK takes time to import

    engine = next(filter(None, map(shutil.which, ENGINES)), None)
    if engine is None:
        raise InfrastructureError("an image needs Docker or podman, and neither is on PATH")
    asked = [engine, "image", "inspect", "--format", "{{.Id}}", name]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode:
        said = last_line(done.stderr)
        if re.search("no such (image|object)|not known", said, re.IGNORECASE):
            raise UsageError(f"no image '{name}' here: {Path(engine).name} images lists those that are")
        raise InfrastructureError(f"{Path(engine).name}: {said}")
    image = done.stdout.strip()
    places = list(dict.fromkeys(str(each.absolute()) for each in (code(root), root)))
    user = f"{os.getuid()}:{os.getgid()}" if os.getuid() else f"{PLAIN_USER}:{PLAIN_USER}"
    variables = {
        "PYTHONPATH": places[0],
        "HOME": SCRATCH,
        "TMPDIR": SCRATCH,
        "TILELANG_CACHE_DIR": f"{SCRATCH}/tilelang",
    }
    quiet = {"PYTHONDONTWRITEBYTECODE": "1", "TILELANG_PRINT_ON_COMPILATION": "0"}
    return image, (
        *(engine, "run", "--rm", "--init", "--interactive", "--network=none", "--read-only"),
        *("--cap-drop=ALL", "--security-opt=no-new-privileges", f"--pids-limit={PIDS}", f"--user={user}"),
        *(f"--tmpfs={place}:rw,exec,nosuid,nodev,mode=1777" for place in ("/tmp", SCRATCH)),
        *(f"--volume={place}:{place}:ro" for place in places),
        *(f"--env={key}={value}" for key, value in (variables | quiet).items()),
        *(f"--workdir={places[0]}", f"--entrypoint={INTERPRETER}", image),
    )

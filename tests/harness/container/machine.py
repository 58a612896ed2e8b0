"""A Docker engine of the tests' own, and a user of this machine with the right to it."""

import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import docker

from harness.container import engine as engines

USER: Final = 12345  # no user of this machine or of the image
GROUP: Final = 23456  # may use the socket


@dataclass
class Engine:
    """A dockerd, its socket, and all its files in one folder."""

    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def host(self) -> str:
        return f"unix://{self.folder}/docker.sock"

    @classmethod
    def start(cls, folder: Path) -> "Engine":
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    "dockerd", f"--host=unix://{folder}/docker.sock", f"--data-root={folder}/data",
                    f"--exec-root={folder}/exec", f"--pidfile={folder}/pid", "--bridge=none", "--iptables=false",
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )  # fmt: skip
        made = cls(folder, process)
        for _ in range(300):
            if (folder / "docker.sock").exists() and "API listen" in (folder / "log").read_text():
                os.chown(folder / "docker.sock", 0, GROUP)
                return made
            if process.poll() is not None:
                break
            time.sleep(0.1)
        made.stop()
        raise RuntimeError(f"dockerd did not start: {(folder / 'log').read_text()[-2000:]}")

    def client(self) -> docker.DockerClient:
        return docker.DockerClient(base_url=self.host, timeout=engines.ANSWER_S)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted((each for each in mounts if each.startswith(f"{self.folder}/")), reverse=True):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True)
class Host:
    """A user of this machine, neither root nor in a sudo group, with a clone and the right to use the engine."""

    clone: Path
    environment: dict[str, str]
    user: int = USER
    groups: str = f"--groups={GROUP}"

    def command(self, *words: str) -> list[str]:
        return ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", self.groups, *words]

    def run(
        self, *words: str, seconds: float = 600, variables: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            cwd=self.clone,
            env=self.environment | (variables or {}),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*words),
            cwd=self.clone,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def harness(self, *words: str, variables: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return self.run(".venv-docker/bin/python", "-m", "harness", *words, variables=variables)

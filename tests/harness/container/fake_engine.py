"""Docker's engine without containers: what one would run is a process of this machine, in the folder of its mount."""

import json
import os
import re
import struct
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
API = {"ApiVersion": "1.43", "MinAPIVersion": "1.24", "MemTotal": 8 << 30}


class FakeEngine:
    """``created`` are the orders for containers, ``links`` what led out of their trees. One image is known."""

    image = "sha256:" + "1" * 64
    name = "judge:1"

    def __init__(self, socket: Path) -> None:
        self.host = f"unix://{socket}"
        self.created: list[dict[str, Any]] = []
        self.links: list[str] = []
        self.codes: dict[int, int] = {}
        self.started = [threading.Event() for _ in range(64)]
        self._server = ThreadingUnixStreamServer(str(socket), type("Bound", (Handler,), {"engine": self}))
        self._server.daemon_threads = True

    def __enter__(self) -> "FakeEngine":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def run(self, number: int) -> "subprocess.CompletedProcess[bytes]":
        """Run a container's command to its end."""
        self.started[number].wait()
        order = self.created[number]
        (tree,) = (Path(each["Source"]) for each in order["HostConfig"]["Mounts"] if each["Target"] == "/tilebench")
        self.links += [str(path) for path in tree.rglob("*") if path.is_symlink()]
        told = dict(each.split("=", 1) for each in order["Env"])
        python, *words = order["Cmd"]
        assert python == "python3"
        own = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{tree}:{ROOT}", "TILEBENCH_ROOT": str(tree)}
        done = subprocess.run([sys.executable, *words], cwd=tree, env=told | own, capture_output=True, check=False)
        self.codes[number] = done.returncode
        return done


class Handler(BaseHTTPRequestHandler):
    engine: FakeEngine

    def do_GET(self) -> None:
        name = re.sub(r"^/v[0-9.]+", "", self.path.partition("?")[0])
        if name == f"/images/{self.engine.name}/json":
            self._answer({"Id": self.engine.image, "RepoTags": [self.engine.name], "Config": {"Env": []}})
        elif name.startswith("/images/"):
            self._answer({"message": "No such image"}, 404)
        elif found := re.match(r"/containers/([0-9]+)/json", name):
            self._answer({"Id": found[1], "Config": {"Tty": False}, "State": {"OOMKilled": False}})
        else:
            self._answer([] if name == "/containers/json" else API)

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "/containers/create" in self.path:
            self.engine.created.append(json.loads(asked))
            self._answer({"Id": str(len(self.engine.created) - 1), "Warnings": []}, 201)
            return
        number, verb = int(self.path.split("/")[3]), self.path.partition("?")[0].rpartition("/")[2]
        if verb == "start":
            self.engine.started[number].set()
            self._answer(None, 204)
        elif verb == "wait":
            self._answer({"StatusCode": self.engine.codes[number]})
        else:
            self._stream(number)

    def do_DELETE(self) -> None:
        self._answer(None, 204)

    def _stream(self, number: int) -> None:
        """What the process writes, in Docker's frames."""
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.docker.multiplexed-stream")
        self.end_headers()
        self.wfile.flush()
        done = self.engine.run(number)
        for stream, said in ((1, done.stdout), (2, done.stderr)):
            self.wfile.write(struct.pack(">BxxxI", stream, len(said)) + said if said else b"")
        self.close_connection = True

    def _answer(self, content: object, status: int = 200) -> None:
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "docker"

    def log_message(self, format: str, *words: object) -> None: ...

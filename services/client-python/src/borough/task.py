"""For a program that Borough runs: who am I, my ports, my peers, and readiness."""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from ._async.client import AsyncClient
from ._sync.client import Client
from .errors import BoroughError
from .refs import JobRef
from .v1 import Endpoint


class NotATaskError(BoroughError):
    """The program does not run as a task of Borough."""


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """What a task knows of itself, from its environment."""

    cell: str
    """The cell that runs it."""
    user: str
    """The user of its job."""
    job: str
    """The name of its job."""
    index: int
    """Its number within the job, from 0."""
    attempt: int
    """The number of its present attempt."""
    node: str
    """The name of its node."""
    host: str
    """The address of its node, under which its ports answer."""
    directory: Path
    """Its own directory, which is its working directory unless the job says otherwise."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """Its ports by their names."""
    role: str = ""
    """Its role, in a job of roles."""
    role_index: int | None = None
    """Its number within its role."""
    alloc: str = ""
    """The alloc that it is in, such as `places/1`; empty: none."""
    alloc_directory: Path | None = None
    """The directory that the tasks of its alloc share."""
    alloc_ports: Mapping[str, int] = field(default_factory=dict)
    """The ports of its alloc by their names."""
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Its devices by their kinds, such as `gpu`."""

    @property
    def name(self) -> str:
        """The name under which its endpoint is published: `INDEX.JOB.USER.CELL`."""
        return f"{self.index}.{self.job}.{self.user}.{self.cell}"

    @property
    def ref(self) -> JobRef:
        """Its job."""
        return JobRef(self.user, self.job)

    def port(self, name: str | None = None) -> int:
        """The number of a port, or of the only one. Raises `KeyError` with the names if there is no such port."""
        if name is None and len(self.ports) == 1:
            return next(iter(self.ports.values()))
        key = (name or "").lower().replace("_", "-")
        if key not in self.ports:
            raise KeyError(f'no port "{name or ""}"; known: {", ".join(self.ports) or "none"}')
        return self.ports[key]

    def peers(self, client: Client) -> list[Endpoint]:
        """The published endpoints of the other tasks of its job."""
        scoped = client.scoped(cell=self.cell)
        return [endpoint for endpoint in scoped.names.list(self.ref) if endpoint.index != self.index]

    async def peers_async(self, client: AsyncClient) -> list[Endpoint]:
        """The same for asyncio."""
        scoped = client.scoped(cell=self.cell)
        return [endpoint async for endpoint in scoped.names.list(self.ref) if endpoint.index != self.index]


def current(environment: Mapping[str, str] | None = None) -> TaskInfo:
    """What the running task knows of itself. Raises `NotATaskError` outside of Borough."""
    env = os.environ if environment is None else environment
    try:
        role_index = env.get("BOROUGH_ROLE_INDEX")
        alloc_directory = env.get("BOROUGH_ALLOC_DIR")
        return TaskInfo(
            cell=env["BOROUGH_CELL"],
            user=env["BOROUGH_USER"],
            job=env["BOROUGH_JOB"],
            index=int(env["BOROUGH_INDEX"]),
            attempt=int(env["BOROUGH_ATTEMPT"]),
            node=env["BOROUGH_NODE"],
            host=env["HOST"],
            directory=Path(env["BOROUGH_TASK_DIR"]),
            ports=_ports(env, "PORT_"),
            role=env.get("BOROUGH_ROLE", ""),
            role_index=None if role_index is None else int(role_index),
            alloc=env.get("BOROUGH_ALLOC", ""),
            alloc_directory=None if alloc_directory is None else Path(alloc_directory),
            alloc_ports=_ports(env, "BOROUGH_ALLOC_PORT_"),
            devices={
                name.removeprefix("BOROUGH_DEVICE_").lower(): tuple(value.split(","))
                for name, value in env.items()
                if name.startswith("BOROUGH_DEVICE_") and not name.endswith("_MILLIS")
            },
        )
    except KeyError as missing:
        raise NotATaskError(f"not a task of Borough: the variable {missing.args[0]} is not set") from None
    except ValueError as wrong:
        raise NotATaskError(f"not a task of Borough: {wrong}") from None


def _ports(env: Mapping[str, str], prefix: str) -> dict[str, int]:
    """The ports in variables. Their names are in capitals there, with `_` for `-`."""
    return {
        name.removeprefix(prefix).lower().replace("_", "-"): int(value)
        for name, value in env.items()
        if name.startswith(prefix) and value.isdigit()
    }


class Readiness:
    """Answers the HTTP check of a task on one of its ports: 200 while it is ready, and 503 otherwise.

    Use it in `with`, or close it. A job checks it by `health=borough.HttpCheck("health")`. Borough publishes the
    endpoint of the task while the check passes.
    """

    def __init__(self, port: int, host: str = "") -> None:
        """Listens on a port, such as `current().port("health")`. Not ready at first."""
        self._is_ready = threading.Event()
        is_ready = self._is_ready

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if is_ready.is_set() else 503)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Checks are no news."""

        self._server = http.server.ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="borough-readiness", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port on which it answers."""
        return self._server.server_address[1]

    def ready(self) -> None:
        """Says that the task serves."""
        self._is_ready.set()

    def not_ready(self) -> None:
        """Says that the task does not serve. After some failed checks Borough restarts it."""
        self._is_ready.clear()

    def close(self) -> None:
        """Ends the answers."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Readiness:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

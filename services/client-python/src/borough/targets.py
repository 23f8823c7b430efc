"""What both balancing channels share: their targets, why a job has no endpoint, and the order of picks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
import grpc.aio

from .errors import BoroughError, InvalidError
from .items import EndpointItem, EndpointTable
from .outage import Absent
from .refs import NAME, JobRef

E = TypeVar("E")

_SCHEME = "borough:///"


class NoEndpointError(BoroughError, grpc.RpcError):
    """A call has found no endpoint. It is an error of gRPC too, so who catches those needs no further case.

    The code is `DEADLINE_EXCEEDED` if the call's own timeout was over, and `UNAVAILABLE` otherwise.
    """

    def __init__(self, reason: str, code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE) -> None:
        Exception.__init__(self, reason)
        self._reason, self._status = reason, code

    def code(self) -> grpc.StatusCode:
        """The code of gRPC."""
        return self._status

    def details(self) -> str:
        """Why the call has found no endpoint."""
        return self._reason

    def initial_metadata(self) -> Any:
        """None: no server has answered."""
        return ()

    def trailing_metadata(self) -> Any:
        """None: no server has answered."""
        return ()

    def __str__(self) -> str:
        return self._reason


class AioNoEndpointError(NoEndpointError, grpc.aio.AioRpcError):
    """The same for asyncio, of the kind that calls of `grpc.aio` raise."""

    def __init__(self, reason: str) -> None:
        grpc.aio.AioRpcError.__init__(
            self, grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), details=reason
        )
        NoEndpointError.__init__(self, reason)

    initial_metadata = grpc.aio.AioRpcError.initial_metadata
    trailing_metadata = grpc.aio.AioRpcError.trailing_metadata


@dataclass
class Presence:
    """What a watch has said of the endpoints of a job, to tell why a call finds none."""

    job: JobRef
    cell: str
    port: str | None
    is_known: bool = False
    ports: tuple[str, ...] = ()
    absent: Exception | None = None
    ended: BoroughError | None = None

    def apply(self, item: EndpointItem, table: EndpointTable) -> None:
        """Takes an item of the watch into account, after the table has."""
        self.absent = item.error if isinstance(item, Absent) else None
        if not isinstance(item, Absent):
            self.is_known = True
        self.ports = tuple(sorted({port.name for endpoint in table for port in endpoint.ports}))

    def reason(self) -> str:
        """Why a call finds no endpoint."""
        job = f"the job {self.job} in the cell {self.cell}"
        if self.ended is not None:
            return f"the endpoints of {job} are not known: {self.ended}"
        if self.absent is not None:
            return f"the endpoints of {job} are not known yet: {self.absent}"
        if not self.is_known:
            return f"the endpoints of {job} are not known yet"
        if self.ports and self.port is not None:
            return f'no endpoint of {job} has the port "{self.port}"; accepted: {", ".join(self.ports)}'
        return f"{job} has no endpoint"


def target_of(target: str) -> tuple[JobRef, str]:
    """The job and the cell of `borough:///JOB.USER.CELL`."""
    is_borough = isinstance(target, str) and target.startswith(_SCHEME)
    parts = target.removeprefix(_SCHEME).split(".") if is_borough else []
    if len(parts) != 3 or not all(NAME.fullmatch(part) for part in parts):
        raise InvalidError.of("target", target, "borough:///JOB.USER.CELL")
    return JobRef(parts[1], parts[0]), parts[2]


def interleaved(items: Sequence[E], weights: Sequence[int]) -> list[E]:
    """Each item as often as its weight says, spread evenly (smooth weighted round robin)."""
    credit = [0] * len(items)
    total = sum(weights)
    order = []
    for _ in range(total):
        credit = [each + weight for each, weight in zip(credit, weights, strict=True)]
        chosen = max(range(len(items)), key=credit.__getitem__)
        credit[chosen] -= total
        order.append(items[chosen])
    return order

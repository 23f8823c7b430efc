"""What watches yield, and a table of the endpoints that they describe. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .outage import Absent
from .v1 import Change, Cursor, Endpoint


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every present endpoint. It replaces whatever was known before."""

    endpoints: tuple[Endpoint, ...]
    """The endpoints, by the ids of their jobs and their indexes."""
    cursor: Cursor
    """A watch from here continues the snapshot."""


@dataclass(frozen=True, slots=True)
class Published:
    """An endpoint is new, or has changed."""

    endpoint: Endpoint
    """The endpoint as it is now."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """An endpoint is gone. Its incarnation never comes back."""

    user: str
    """The user of the job."""
    job: str
    """The name of the job."""
    index: int
    """The index of the task."""
    incarnation: int
    """The attempt that is gone."""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """All changes up to the cursor were yielded."""

    cursor: Cursor
    """A watch from here misses nothing and repeats nothing."""


@dataclass(frozen=True, slots=True)
class Resync:
    """The gateway cannot resume the watch: its cursor is too old, or the cell was restored.

    A watch of endpoints goes on with a snapshot. A watch of a cell ends: list again, and watch from that list.
    """

    reason: str
    """Why, for people."""


EndpointItem = Snapshot | Published | Withdrawn | Bookmark | Absent | Resync
"""What a watch of endpoints yields."""

CellItem = Change | Bookmark | Absent | Resync
"""What a watch of a cell yields."""


class EndpointTable:
    """The endpoints that the items of a watch describe."""

    def __init__(self) -> None:
        self._endpoints: dict[tuple[str, str, int], Endpoint] = {}

    def apply(self, item: EndpointItem) -> bool:
        """Takes an item into account. Returns whether the endpoints may have changed."""
        known = self._endpoints
        if isinstance(item, Snapshot):
            self._endpoints = {(each.user, each.job, each.index): each for each in item.endpoints}
        elif isinstance(item, Published):
            known[(item.endpoint.user, item.endpoint.job, item.endpoint.index)] = item.endpoint
        elif isinstance(item, Withdrawn):
            place = (item.user, item.job, item.index)
            # A later attempt may have been published since.
            if place in known and known[place].incarnation <= item.incarnation:
                del known[place]
        else:
            return False
        return True

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(sorted(self._endpoints.values(), key=lambda each: (each.user, each.job, each.index)))

    def __len__(self) -> int:
        return len(self._endpoints)


def addresses(endpoints: Iterator[Endpoint] | EndpointTable, port: str | None = None) -> list[str]:
    """The addresses of endpoints as `HOST:PORT`, of the port with a name, or of the first one."""
    found = []
    for endpoint in endpoints:
        numbers = [each.number for each in endpoint.ports if port is None or each.name == port]
        if numbers:
            host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
            found.append(f"{host}:{numbers[0]}")
    return found

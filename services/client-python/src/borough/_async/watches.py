"""Watches: iterators over typed items that neither lose nor repeat a change."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from .._transport.common import NotYet
from ..items import Bookmark, CellItem, EndpointItem, Published, Resync, Snapshot, Withdrawn
from ..outage import Absent
from ..requests import build
from ..v1 import Change, Cursor, Endpoint, EndpointWithdrawn, cell_pb2, methods, name_pb2, watch_pb2
from .call import Caller, present
from .follow import Changed, Feed, Followed, Follower, Marked, Trimmed, Void

I = TypeVar("I")  # noqa: E741
S = TypeVar("S", bound=Message)
W = TypeVar("W", bound="Watch[Any, Any]")


class Watch(AsyncIterator[I], Generic[I, S]):
    """An iterator over the items of a watch, opened when the first one is asked for.

    Use it in `async with`, or close it. It goes on by itself over broken connections and other gateways. An error, such
    as a refusal, ends it. Whoever stops waiting for an item, such as by a timeout, loses none.
    """

    def __init__(self, follower: Follower[S]) -> None:
        self._follower = follower

    @property
    def cursor(self) -> Cursor | None:
        """Where another watch would resume without gap or repetition; None before the snapshot is complete."""
        return self._follower.resumption.base

    async def close(self) -> None:
        """Ends the watch. Whoever waits for its next item gets the end of the iteration."""
        await self._follower.close()

    async def poll(self, timeout: float) -> I | None:
        """The next item; None if none comes within so many seconds, or if the watch is over."""
        try:
            return await self._next(time.monotonic() + timeout)
        except NotYet:
            return None

    async def _next(self, until: float | None) -> I | None:
        """The next item; None at the end."""
        try:
            await self._begin()
            while True:
                followed = await self._follower.next(until)
                if followed is None:
                    return None
                item = self._item(followed)
                if item is not None:
                    return item
        except NotYet:
            raise
        except Exception:
            await self.close()
            raise

    async def _begin(self) -> None:
        """What comes before the first item."""

    def _item(self, followed: Followed[S]) -> I | None:
        """The item of what a follower yields; None: a part of one."""
        raise NotImplementedError

    def __aiter__(self: W) -> W:
        return self

    async def __anext__(self) -> I:
        item = await self._next(None)
        if item is None:
            raise StopAsyncIteration
        return item

    async def __aenter__(self: W) -> W:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class EndpointWatch(Watch[EndpointItem, name_pb2.WatchEndpointsResponse]):
    """The endpoints of a job, or of all jobs of a user: a snapshot first, then every change, in order."""

    def __init__(self, caller: Caller, user: str, job: str, resume: Cursor | None) -> None:
        def request(base: Cursor | None) -> name_pb2.WatchEndpointsRequest:
            message = build(
                name_pb2.WatchEndpointsRequest, context=caller.read(), cell=caller.config.cell, user=user, job=job
            )
            if base is not None:
                message.resume.MergeFrom(base.to_message())
            return message

        super().__init__(Follower(caller, Feed(methods.WATCH_ENDPOINTS, request, "event"), resume))
        # The endpoints of an incomplete snapshot. One that breaks is never yielded.
        self._snapshot: dict[tuple[str, str, int], Endpoint] | None = {} if resume is None else None

    def _item(self, followed: Followed[name_pb2.WatchEndpointsResponse]) -> EndpointItem | None:
        if isinstance(followed, Changed):
            return self._change(followed.message)
        if isinstance(followed, Marked):
            snapshot, self._snapshot = self._snapshot, None
            if snapshot is None:
                return Bookmark(followed.cursor)
            return Snapshot(tuple(snapshot.values()), followed.cursor)
        if isinstance(followed, (Void, Trimmed)):
            self._snapshot = {}
            return Resync(followed.reason) if isinstance(followed, Trimmed) else None
        return followed

    def _change(self, message: name_pb2.WatchEndpointsResponse) -> EndpointItem | None:
        if message.HasField("published"):
            endpoint = Endpoint.from_message(message.published)
            if self._snapshot is None:
                return Published(endpoint)
            self._snapshot[(endpoint.user, endpoint.job, endpoint.index)] = endpoint
            return None
        gone = EndpointWithdrawn.from_message(message.withdrawn)
        if self._snapshot is None:
            return Withdrawn(gone.user, gone.job, gone.index, gone.incarnation)
        self._snapshot.pop((gone.user, gone.job, gone.index), None)
        return None


class CellWatch(Watch[CellItem, watch_pb2.WatchResponse]):
    """All changes of a cell that a filter selects, in order. After a `Resync` it ends: list again."""

    def __init__(self, caller: Caller, filter: watch_pb2.WatchFilter, resume: Cursor | None) -> None:
        def request(base: Cursor | None) -> watch_pb2.WatchRequest:
            message = build(watch_pb2.WatchRequest, context=caller.read(), cell=caller.config.cell, filter=filter)
            if base is not None:
                message.resume.MergeFrom(base.to_message())
            return message

        super().__init__(Follower(caller, Feed(methods.WATCH, request, "change"), resume))
        self._caller = caller

    async def _begin(self) -> None:
        # A watch without a cursor would lose changes if its connection broke before its first message.
        resumption = self._follower.resumption
        if resumption.base is None:
            request = build(cell_pb2.GetCellRequest, context=self._caller.read(), name=self._caller.config.cell)
            answer = await self._caller.call(methods.GET_CELL, request)
            resumption.restart(Cursor.from_message(present(methods.GET_CELL, answer, "cursor")))

    async def _next(self, until: float | None) -> CellItem | None:
        item = await super()._next(until)
        if isinstance(item, Resync):
            await self.close()
        return item

    def _item(self, followed: Followed[watch_pb2.WatchResponse]) -> CellItem | None:
        if isinstance(followed, Changed):
            return Change.from_message(followed.message)
        if isinstance(followed, Marked):
            return Bookmark(followed.cursor)
        if isinstance(followed, Trimmed):
            return Resync(followed.reason)
        return followed if isinstance(followed, Absent) else None

"""Keeps a watch open over broken connections, by the rules of `resumption`."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from .._transport.aio import Signal, Stream
from .._transport.common import Ended, NotYet, StatusError
from ..errors import BoroughError, Code, Refusal
from ..methods import Method
from ..outage import Absent, Outage, OutageStep
from ..resumption import Resumption
from ..retry import overload_pause, worth_repeating
from ..status import Status
from ..tries import failed_once, unreachable
from ..v1 import Cursor
from .call import Caller

S = TypeVar("S", bound=Message)

# A stream that stays open for so many seconds without a message shows that a gateway answers again.
_ANSWERED_AFTER = 1.0
# A gateway ends a stream without a status only when it shuts down.
_ENDED = Status(Refusal(Code.UNAVAILABLE, "the stream has ended"))


@dataclass(frozen=True)
class Feed(Generic[S]):
    """A kind of watch: how it is opened, and which of its fields says what has changed."""

    method: Method[Any, S]
    request: Callable[[Cursor | None], Any]
    change: str
    """The name of the oneof."""


@dataclass(frozen=True)
class Changed(Generic[S]):
    """A change, once."""

    message: S


@dataclass(frozen=True)
class Marked:
    """Everything up to the cursor was yielded."""

    cursor: Cursor


@dataclass(frozen=True)
class Void:
    """The stream started again inside an incomplete snapshot: what was yielded of it does not count."""


@dataclass(frozen=True)
class Trimmed:
    """The gateway cannot resume the watch. The next stream starts with a snapshot."""

    reason: str


Followed = Changed[S] | Marked | Void | Trimmed | Absent


class Follower(Generic[S]):
    """A watch after `base`, or one that starts with a snapshot. It is opened when the first item is asked for."""

    def __init__(self, caller: Caller, feed: Feed[S], base: Cursor | None) -> None:
        self._caller, self._feed = caller, feed
        self.resumption = Resumption(base)
        self._closed = Signal()
        self._stream: Stream[S] | None = None
        self._gateway = 0
        self._is_open = False
        self._open_until = 0.0
        self._pause_until = 0.0
        self._attempts = 0
        self._outage: Outage | None = None
        self._failed: Status | None = None
        self._is_notified = False
        self._queued: deque[Followed[S]] = deque()

    async def close(self) -> None:
        """Ends the watch. Whoever waits for its next item gets the end."""
        self._closed.set()
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.cancel()

    async def next(self, until: float | None) -> Followed[S] | None:
        """The next item; None once the watch is closed. Raises `NotYet` at the time `until`."""
        while not self._closed.is_set:
            if self._queued:
                return self._queued.popleft()
            try:
                message = await self._message(until)
            except StatusError as failed:
                await self._broken(failed.status)
                continue
            except Ended:
                if not self._closed.is_set:
                    self._caller.check_open()
                return None
            if message is not None:
                item = self._taken(message)
                if item is not None:
                    return item
        return None

    def _taken(self, message: Any) -> Followed[S] | None:
        """The item of a message; None if it was delivered before."""
        self._answered()
        cursor = Cursor.from_message(message.cursor) if message.HasField("cursor") else None
        kind = message.WhichOneof(self._feed.change)
        if kind == "bookmark" or (kind is None and not message.more):
            if cursor is None:
                return None
            self.resumption.complete(cursor)
            return Marked(cursor)
        if cursor is None:
            return Changed(message)
        is_new = self.resumption.accept(cursor)
        if not message.more and not self.resumption.in_snapshot:
            self.resumption.complete(cursor)
        # A later version of the API may send a kind of change that this one does not know.
        return Changed(message) if is_new and kind is not None else None

    def _answered(self) -> None:
        self._attempts, self._outage, self._failed, self._is_notified = 0, None, None, False

    async def _message(self, until: float | None) -> S | None:
        """The next message. None: something else is to be looked at first."""
        if not await self._paused(until):
            return None
        stream = await self._opened(until)
        if stream is None:
            return None
        limits = [until, time.monotonic() + _ANSWERED_AFTER if self._is_notified else None]
        try:
            message = await stream.read(seconds_to(limits))
        except NotYet:
            if not self._is_notified:
                raise
            if until is not None and time.monotonic() >= until:
                raise
            # Nothing has changed, and the reader must not wait for a change to learn that the watch goes on.
            self._answered()
            cursor = self.resumption.reopened()
            if cursor is not None:
                self._queued.append(Marked(cursor))
            return None
        if message is None:
            # A gateway ends a watch only when it shuts down.
            await self._broken(None)
        return message

    async def _paused(self, until: float | None) -> bool:
        """Waits until the pause after a failure is over. Returns false if the watch was closed meanwhile."""
        left = self._pause_until - time.monotonic()
        if left <= 0:
            return True
        limit = seconds_to([until, self._pause_until]) or 0.0
        if await self._closed.wait(limit):
            return False
        if time.monotonic() < self._pause_until:
            raise NotYet
        return True

    async def _opened(self, until: float | None) -> Stream[S] | None:
        """The open stream. None: something else is to be looked at first."""
        now = time.monotonic()
        if self._stream is None:
            request = self._feed.request(self.resumption.reopened())
            self._gateway, self._stream = self._caller.begin(self._feed.method, request)
            self._is_open, self._open_until = False, now + self._caller.config.deadline
            if self._closed.is_set:
                await self.close()
                raise Ended
        if self._is_open:
            return self._stream
        left = self._outage.left(now) if self._outage is not None else None
        limits = [until, self._open_until, None if left is None else now + left]
        try:
            await self._stream.opened(seconds_to(limits))
        except NotYet:
            await self._not_opened(until)
            return None
        self._is_open = True
        self._caller.rotation.answered(self._gateway)
        return self._stream

    async def _not_opened(self, until: float | None) -> None:
        now = time.monotonic()
        if now >= self._open_until:
            await self._broken(None)
        elif self._outage is not None and (step := self._outage.step(now)) is not None:
            self._outage_step(step)
        elif until is not None and now >= until:
            raise NotYet

    def _outage_step(self, step: OutageStep) -> None:
        outage = self._outage
        if step is OutageStep.GIVE_UP or outage is None:
            raise self._unreachable()
        self._is_notified = True
        self._queued.append(outage.absence(self._unreachable()))

    def _unreachable(self) -> BoroughError:
        return unreachable(self._caller.config, self._feed.method, self._attempts, self._failed)

    async def _broken(self, status: Status | None) -> None:
        """Prepares the next stream, after a pause. Raises an error that no other stream would mend."""
        if self._closed.is_set:
            return
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.cancel()
        self._caller.check_open()
        now, config = time.monotonic(), self._caller.config
        self._attempts += 1
        if status is not None and status.code is Code.OUT_OF_RANGE:
            self._queued.append(Trimmed(status.refusal.message))
            self.resumption.restart(None)
            # A gateway that trims again at once must not be asked in a tight loop.
            pause = 0.0 if self._attempts == 1 else config.retry.pause(self._attempts, random.random())
            self._pause_until = now + pause
            return
        asked = overload_pause(status) if status is not None else None
        if status is not None and not worth_repeating(status) and asked is None:
            raise failed_once(config, self._feed.method, status)
        self._caller.note_failure(self._gateway, status or _ENDED)
        self._failed = status or self._failed
        self._outage = self._outage or Outage(now, config.patience)
        step = self._outage.step(now)
        if step is not None:
            self._outage_step(step)
        self._pause_until = now + (asked or 0.0) + config.retry.pause(self._attempts, random.random())
        if self.resumption.in_snapshot:
            self._queued.append(Void())


def seconds_to(times: list[float | None]) -> float | None:
    """The seconds to the first of some times; None without one."""
    given = [at for at in times if at is not None]
    return max(0.0, min(given) - time.monotonic()) if given else None

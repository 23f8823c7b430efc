"""Reads the output of one attempt. A broken connection, a gateway that ends and an agent that changes its gateway cost
no byte and repeat none.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Callable
from types import TracebackType

from .._transport.aio import Signal, Stream
from .._transport.common import Ended, NotYet, StatusError
from ..errors import Code, Refusal, RefusedError
from ..log_query import AgentAway, LogQuery, LogWait
from ..log_resumption import LogResumption
from ..outage import Outage, OutageStep
from ..refs import TaskRef
from ..requests import build, millis
from ..retry import worth_repeating
from ..status import Status
from ..tries import failed_once, unreachable
from ..v1 import LogPart, methods, task_pb2
from .call import Caller, number

# Tries after which the reader hears of an agent that has just lost its connection. Most agents are back sooner.
_AWAY_NOTIFIED = 8
_ENDED = Status(Refusal(Code.UNAVAILABLE, "the stream has ended"))


class LogReader(AsyncIterator[LogPart]):
    """An iterator over the output of a task. It ends with the kept output or, with `follow`, with the attempt.

    Use it in `async with`, or close it.
    """

    def __init__(
        self, caller: Caller, task: TaskRef, query: LogQuery, on_wait: Callable[[LogWait], None] | None = None
    ) -> None:
        self._caller, self._query, self._on_wait = caller, query, on_wait
        request = build(
            task_pb2.ReadLogsRequest,
            context=caller.read(),
            cell=caller.config.cell,
            user=task.job.user,
            job=task.job.name,
            index=task.index,
            tail_lines=query.tail_lines,
            follow=query.follow,
            incarnation=query.incarnation,
            window_bytes=query.window_bytes,
            times=query.times,
            since_ms=None if query.since is None else millis("since", query.since),
            helper=query.helper,
        )
        request.stream = number("stream", query.stream)
        self._resumption = LogResumption(request)
        self._closed = Signal()
        self._stream: Stream[task_pb2.ReadLogsResponse] | None = None
        self._was_open = False
        self._has_answer = False
        self._attempts = 0
        self._outage: Outage | None = None
        self._notified: str | None = None

    async def close(self) -> None:
        """Ends the read. Whoever waits for output gets the end of the iteration."""
        self._closed.set()
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.cancel()

    async def read_all(self, *, timeout: float | None = None) -> bytes:
        """The output up to the end of the read, or what has come of it within the timeout."""
        until = None if timeout is None else time.monotonic() + timeout
        data = bytearray()
        try:
            while (part := await self._next(until)) is not None:
                data += part.data
        except NotYet:
            pass
        return bytes(data)

    async def _next(self, until: float | None) -> LogPart | None:
        """The next part with output; None at the end."""
        while not self._closed.is_set:
            try:
                part = await self._part(until)
            except NotYet:
                raise
            except Exception:
                await self.close()
                raise
            if part is None:
                continue
            self._attempts, self._outage, self._notified, self._has_answer = 0, None, None, True
            self._resumption.delivered(part)
            if part.end:
                await self.close()
            if part.data or part.gone_bytes:
                return LogPart.from_message(part)
        return None

    async def _part(self, until: float | None) -> task_pb2.ReadLogsResponse | None:
        """The next answer; None: the stream has broken, and another try follows."""
        try:
            stream = self._stream or await self._opened()
            part = await stream.read(None if until is None else max(0.0, until - time.monotonic()))
        except Ended:
            if not self._closed.is_set:
                self._caller.check_open()
            await self.close()
            return None
        except StatusError as failed:
            await self._broken(failed.status)
            return None
        if part is None:
            if self._resumption.is_positioned:
                await self._broken(_ENDED)
            else:
                # An older gateway ends a stream so.
                await self.close()
        return part

    async def _opened(self) -> Stream[task_pb2.ReadLogsResponse]:
        """The open stream. The first one has the tries of a call, unless the agent is waited for."""
        if not self._was_open:
            try:
                self._stream = await self._caller.open(methods.READ_LOGS, self._resumption.request)
            except RefusedError as error:
                if not (self._query.follow and error.refusal.is_agent_away):
                    raise
                self._was_open = True
                raise StatusError(Status(error.refusal)) from None
            self._was_open = True
            return self._stream
        number, self._stream = self._caller.begin(methods.READ_LOGS, self._resumption.request)
        try:
            await self._stream.opened(self._caller.config.deadline)
        except NotYet:
            raise StatusError(_ENDED) from None
        except StatusError as failed:
            self._caller.note_failure(number, failed.status)
            raise
        self._caller.rotation.answered(number)
        return self._stream

    async def _broken(self, status: Status) -> None:
        """Prepares the next try, after a pause. Raises an error that no other try would mend."""
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.cancel()
        self._caller.check_open()
        config, refusal = self._caller.config, status.refusal
        waits = self._query.follow and refusal.is_agent_away
        if self._resumption.is_lost or not (waits or worth_repeating(status)):
            raise failed_once(config, methods.READ_LOGS, status)
        self._attempts += 1
        if not (waits or self._has_answer) and self._attempts >= config.retry.attempts:
            raise unreachable(config, methods.READ_LOGS, self._attempts, status)
        now = time.monotonic()
        if refusal.is_agent_away:
            # A gateway that says so answers.
            self._outage = None
            if refusal.reason != "AGENT_AWAY" or self._attempts >= _AWAY_NOTIFIED:
                self._notify(refusal.reason, AgentAway(refusal))
        else:
            self._outage = self._outage or Outage(now, config.patience)
            step = self._outage.step(now)
            error = unreachable(config, methods.READ_LOGS, self._attempts, status)
            if step is OutageStep.GIVE_UP:
                raise error
            if step is OutageStep.NOTIFY:
                self._notify("gateway", self._outage.absence(error))
        await self._closed.wait(config.retry.pause(self._attempts, random.random()))

    def _notify(self, what: str, wait: LogWait) -> None:
        if self._on_wait is not None and self._notified != what:
            self._on_wait(wait)
        self._notified = what

    def __aiter__(self) -> LogReader:
        return self

    async def __anext__(self) -> LogPart:
        part = await self._next(None)
        if part is None:
            raise StopAsyncIteration
        return part

    async def __aenter__(self) -> LogReader:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

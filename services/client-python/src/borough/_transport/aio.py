"""The transport of asyncio."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from ..config import ClientConfig
from ..methods import Method
from .common import Ended, NotYet, StatusError, credentials, options

Q = TypeVar("Q", bound=Message)
S = TypeVar("S", bound=Message)
T = TypeVar("T")

# What grpcio says if a stream ends while a message is being sent, whatever the status of the end is.
_HIDDEN = "Internal error from Core"
# Seconds within which that status comes, if it was not there before.
_HIDDEN_SECONDS = 1.0

_EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]


class Signal:
    """Something that happens once, and that others wait for."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Lets it happen."""
        self._event.set()

    @property
    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._event.is_set()

    async def wait(self, seconds: float) -> bool:
        """Waits for it, at most so long. Returns whether it has happened."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._event.wait(), seconds)
        return self._event.is_set()


async def end_of(call: Any) -> grpc.aio.AioRpcError:
    """The end of a call as an error. It waits for nothing once the call has ended."""
    code, details = await call.code(), await call.details()
    return grpc.aio.AioRpcError(code, await call.initial_metadata(), await call.trailing_metadata(), details)


class Stream(Generic[S]):
    """A stream of answers. Whoever stops waiting for one loses nothing: the next read has it."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._opening: asyncio.Task[Any] | None = None
        self._reading: asyncio.Task[Any] | None = None
        self._end: grpc.aio.AioRpcError | None = None
        self._has_end = asyncio.Event()
        call.add_done_callback(self._note_end)

    async def opened(self, timeout: float | None) -> None:
        """Waits until the gateway has accepted the call."""
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
        await self._settled(self._opening, timeout)

    async def _open(self) -> None:
        # Of a refused call, this ends without an error.
        await self._call.initial_metadata()
        if self._call.done():
            await self._call.wait_for_connection()

    async def read(self, timeout: float | None) -> S | None:
        """The next answer; None at the end."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._call.read())
        message = await self._settled(self._reading, timeout)
        self._reading = None
        return None if message is _EOF else message

    async def _settled(self, task: asyncio.Task[T], timeout: float | None) -> T:
        done, _ = await asyncio.wait({task}, timeout=timeout)
        if not done:
            raise NotYet
        if task.cancelled():
            raise Ended
        try:
            return task.result()
        except grpc.aio.AioRpcError as error:
            raise await self._failed(error) from None
        except asyncio.InvalidStateError:
            raise Ended from None

    def _note_end(self, call: Any) -> None:
        """Keeps the status of the end: a message that was being sent then would replace it."""
        ending = end_of(call)
        try:
            ending.send(None)
        except StopIteration as known:
            if known.value.details() != _HIDDEN:
                self._end = known.value
                self._has_end.set()
        else:
            ending.close()

    async def _failed(self, error: grpc.aio.AioRpcError) -> StatusError:
        """The end of the stream, by its own status."""
        if error.details() == _HIDDEN:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._has_end.wait(), _HIDDEN_SECONDS)
        return StatusError.of(self._end or error)

    async def cancel(self) -> None:
        """Ends the stream."""
        self._call.cancel()
        tasks = [task for task in (self._opening, self._reading) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # grpcio itself has a task that ends with the status.
        await self._call.code()


class Duplex(Stream[S], Generic[Q, S]):
    """A stream in both directions."""

    def __init__(self, call: Any) -> None:
        super().__init__(call)
        self._feeding: asyncio.Task[None] | None = None

    async def send(self, message: Q) -> None:
        """Sends a message. Waits while the other side is slow."""
        try:
            await self._call.write(message)
        except grpc.aio.AioRpcError as error:
            raise await self._failed(error) from None
        except (asyncio.CancelledError, asyncio.InvalidStateError):
            # Either this task was cancelled, or the stream has ended.
            if not self._call.done():
                raise
            raise Ended from None

    async def finish(self) -> None:
        """Says that no message follows."""
        await self._call.done_writing()

    def feed(self, messages: Iterable[Q]) -> None:
        """Sends messages and finishes, while the caller reads."""

        async def feeding() -> None:
            try:
                for message in messages:
                    await self.send(message)
                await self.finish()
            except (StatusError, Ended, asyncio.InvalidStateError):
                # The reader learns why the stream has ended.
                pass

        self._feeding = asyncio.ensure_future(feeding())

    async def cancel(self) -> None:
        """Ends the stream."""
        if self._feeding is not None:
            self._feeding.cancel()
            await asyncio.gather(self._feeding, return_exceptions=True)
        await super().cancel()


class Transport:
    """The channels to the gateways of a client, made at their first use."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._targets = [gateway.target for gateway in config.parsed_gateways()]
        self._credentials = credentials(config)
        self._channels: dict[int, grpc.aio.Channel] = {}

    def _channel(self, number: int) -> grpc.aio.Channel:
        channel = self._channels.get(number)
        if channel is None:
            target, settings = self._targets[number], options(self._config)
            if self._credentials is None:
                channel = grpc.aio.insecure_channel(target, settings)
            else:
                channel = grpc.aio.secure_channel(target, self._credentials, settings)
            self._channels[number] = channel
        return channel

    async def unary(
        self, number: int, method: Method[Q, S], request: Q, metadata: tuple[tuple[str, str], ...], timeout: float
    ) -> S:
        """One try of a call with one answer."""
        send = self._channel(number).unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        try:
            answer: S = await send(request, timeout=timeout, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise StatusError.of(error) from None
        except asyncio.CancelledError:
            if self._channels.get(number) is not None:
                raise
            # Not this task was cancelled: the client was closed.
            raise Ended from None
        return answer

    def stream(self, number: int, method: Method[Q, S], request: Q, metadata: tuple[tuple[str, str], ...]) -> Stream[S]:
        """Begins a stream of answers."""
        send = self._channel(number).unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        return Stream(send(request, metadata=metadata))

    def duplex(self, number: int, method: Method[Q, S], metadata: tuple[tuple[str, str], ...]) -> Duplex[Q, S]:
        """Begins a stream in both directions."""
        send = self._channel(number).stream_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        return Duplex(send(metadata=metadata))

    async def close(self) -> None:
        """Closes all connections. Calls that run end."""
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()


async def sleep(seconds: float) -> None:
    """Lets time pass."""
    await asyncio.sleep(seconds)

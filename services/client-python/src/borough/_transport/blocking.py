"""The transport of blocking code: the same classes as in `aio`, for threads."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.message import Message

from ..config import ClientConfig
from ..methods import Method
from .common import Ended, NotYet, StatusError, credentials, options

Q = TypeVar("Q", bound=Message)
S = TypeVar("S", bound=Message)

# Answers that a stream holds for a slow reader. Beyond that, gRPC itself holds the gateway back.
_HELD_MAX = 64
# Messages that wait to be sent.
_UNSENT_MAX = 8


class Signal:
    """Something that happens once, and that others wait for."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Lets it happen."""
        self._event.set()

    @property
    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Waits for it, at most so long. Returns whether it has happened."""
        return self._event.wait(seconds)


class Stream(Generic[S]):
    """A stream of answers. A thread of its own reads it, so that a reader may stop waiting and lose nothing."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._changed = threading.Condition()
        self._held: deque[S | None | Exception] = deque()
        self._is_open = False
        self._is_cancelled = False
        self._thread = threading.Thread(target=self._pump, name="borough-stream", daemon=True)
        self._thread.start()

    def _pump(self) -> None:
        try:
            self._call.initial_metadata()
            if self._call.is_active():
                with self._changed:
                    self._is_open = True
                    self._changed.notify_all()
            for message in self._call:
                self._hold(message)
            self._hold(None)
        except grpc.RpcError as error:
            self._hold(Ended() if self._is_cancelled else StatusError.of(error))

    def _hold(self, item: S | None | Exception) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._held) < _HELD_MAX or self._is_cancelled)
            self._held.append(item)
            self._changed.notify_all()

    def opened(self, timeout: float | None) -> None:
        """Waits until the gateway has accepted the call."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_open or self._held or self._is_cancelled, timeout):
                raise NotYet
            first = self._held[0] if self._held else None
            if isinstance(first, Exception) and not self._is_open:
                raise first
            if self._is_cancelled:
                raise Ended

    def read(self, timeout: float | None) -> S | None:
        """The next answer; None at the end."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._held or self._is_cancelled, timeout):
                raise NotYet
            if self._is_cancelled:
                raise Ended
            item = self._held.popleft()
            self._changed.notify_all()
        if isinstance(item, Exception):
            raise item
        return item

    def cancel(self) -> None:
        """Ends the stream, from any thread."""
        with self._changed:
            self._is_cancelled = True
            self._changed.notify_all()
        self._call.cancel()
        if threading.current_thread() is not self._thread:
            self._thread.join(5)


class Duplex(Stream[S], Generic[Q, S]):
    """A stream in both directions."""

    def __init__(self, begin: Any) -> None:
        self._unsent: deque[Q] = deque()
        self._is_finished = False
        self._sending = threading.Condition()
        super().__init__(begin(self._messages()))
        self._call.add_callback(self._ended)

    def _messages(self) -> Iterator[Q]:
        while True:
            with self._sending:
                self._sending.wait_for(lambda: self._unsent or self._is_finished)
                if not self._unsent:
                    return
                message = self._unsent.popleft()
                self._sending.notify_all()
            yield message

    def _ended(self) -> None:
        self.finish()

    def send(self, message: Q) -> None:
        """Sends a message. Waits while the other side is slow."""
        with self._sending:
            self._sending.wait_for(lambda: len(self._unsent) < _UNSENT_MAX or self._is_finished)
            if self._is_finished:
                raise Ended
            self._unsent.append(message)
            self._sending.notify_all()

    def finish(self) -> None:
        """Says that no message follows."""
        with self._sending:
            self._is_finished = True
            self._sending.notify_all()

    def feed(self, messages: Iterable[Q]) -> None:
        """Sends messages and finishes, while the caller reads."""
        with self._sending:
            self._unsent.extend(messages)
        self.finish()

    def cancel(self) -> None:
        """Ends the stream, from any thread."""
        self.finish()
        super().cancel()


class Transport:
    """The channels to the gateways of a client, made at their first use."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._targets = [gateway.target for gateway in config.parsed_gateways()]
        self._credentials = credentials(config)
        self._channels: dict[int, grpc.Channel] = {}
        self._lock = threading.Lock()

    def _channel(self, number: int) -> grpc.Channel:
        with self._lock:
            channel = self._channels.get(number)
            if channel is None:
                target, settings = self._targets[number], options(self._config)
                if self._credentials is None:
                    channel = grpc.insecure_channel(target, settings)
                else:
                    channel = grpc.secure_channel(target, self._credentials, settings)
                self._channels[number] = channel
            return channel

    def unary(
        self, number: int, method: Method[Q, S], request: Q, metadata: tuple[tuple[str, str], ...], timeout: float
    ) -> S:
        """One try of a call with one answer."""
        send = self._channel(number).unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        try:
            answer: S = send(request, timeout=timeout, metadata=metadata)
        except grpc.RpcError as error:
            raise StatusError.of(error) from None
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
        return Duplex(lambda messages: send(messages, metadata=metadata))

    def close(self) -> None:
        """Closes all connections. Calls that run end."""
        with self._lock:
            channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.close()


def sleep(seconds: float) -> None:
    """Lets time pass."""
    time.sleep(seconds)

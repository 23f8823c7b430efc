"""A gateway that answers as a test says, and both faces of the client behind one asynchronous interface."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import status_pb2

import borough
from borough.v1 import common_pb2, methods

METHODS = {each.path: each for each in vars(methods).values() if isinstance(each, methods.Method)}


class Refuse(Exception):
    """Ends a call with a status."""

    def __init__(self, code: grpc.StatusCode, message: str = "no", *details: Message) -> None:
        super().__init__(message)
        self.code, self.message, self.details = code, message, details


class Hang:
    """Keeps a call or a stream open until the client ends it."""


class FakeGateway(grpc.GenericRpcHandler):
    """A server of all methods. Each call takes the next answer of its method's script, or else its default."""

    def __init__(self, address: str = "127.0.0.1:0") -> None:
        self.scripts: dict[str, deque[Any]] = defaultdict(deque)
        self.defaults: dict[str, Callable[[Any], Any]] = {}
        self.requests: dict[str, list[Any]] = defaultdict(list)
        self.metadata: list[dict[str, str]] = []
        self._ending = threading.Event()
        self._server = grpc.server(ThreadPoolExecutor(32), handlers=[self], options=[("grpc.so_reuseport", 0)])
        self.address = address.rpartition(":")[0] + f":{self._server.add_insecure_port(address)}"
        self._server.start()

    def stop(self) -> None:
        """Ends the server, with all that runs."""
        self._ending.set()
        self._server.stop(0).wait()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        method = METHODS[details.method]
        codec = {
            "request_deserializer": method.request.FromString,
            "response_serializer": method.response.SerializeToString,
        }
        self.metadata.append(dict(details.invocation_metadata))
        if method.name in ("Watch", "WatchEndpoints", "ReadLogs"):
            return grpc.unary_stream_rpc_method_handler(lambda q, c: self._stream(method.name, q, c), **codec)
        if method.name == "Exec":
            return grpc.stream_stream_rpc_method_handler(lambda q, c: self._exec(q, c), **codec)
        return grpc.unary_unary_rpc_method_handler(lambda q, c: self._unary(method, q, c), **codec)

    def _unary(self, method: methods.Method[Any, Any], request: Any, context: grpc.ServicerContext) -> Any:
        self.requests[method.name].append(request)
        script = self.scripts[method.name]
        answer = script.popleft() if script else self.defaults.get(method.name, lambda _: method.response())(request)
        if isinstance(answer, Hang):
            self._ending.wait(30)
        return self._end(answer, context)

    def _stream(self, name: str, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        self.requests[name].append(request)
        context.send_initial_metadata(())
        script = self.scripts[name]
        default = self.defaults.get(name, lambda _: [Hang()])
        for answer in script.popleft() if script else default(request):
            if isinstance(answer, Hang):
                done = threading.Event()
                context.add_callback(done.set)
                while not done.wait(0.05) and not self._ending.is_set():
                    pass
                return
            yield self._end(answer, context)

    def _exec(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        script = self.scripts["Exec"].popleft()
        if isinstance(script, Refuse):
            self.requests["Exec"].append(None)
            self._end(script, context)
        context.send_initial_metadata(())
        self.requests["Exec"].append(next(requests))
        for answer in script(requests):
            yield self._end(answer, context)

    @staticmethod
    def _end(answer: Any, context: grpc.ServicerContext) -> Any:
        if not isinstance(answer, Refuse):
            return answer
        if answer.details:
            packed = []
            for detail in answer.details:
                each = AnyMessage()
                each.Pack(detail)
                packed.append(each)
            status = status_pb2.Status(code=answer.code.value[0], message=answer.message, details=packed)
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(answer.code, answer.message)
        raise AssertionError("unreachable")


@contextlib.contextmanager
def gateway(address: str = "127.0.0.1:0") -> Iterator[FakeGateway]:
    """A gateway for the time of a test."""
    fake = FakeGateway(address)
    try:
        yield fake
    finally:
        fake.stop()


class Awaited:
    """A blocking object behind an asynchronous interface: each call runs at once, and `await` has its result."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.value, name)
        if callable(found) and not isinstance(found, type):
            return lambda *given, **options: Awaited(found(*given, **options))
        return found if isinstance(found, (str, bytes, int, float, tuple, type(None))) else Awaited(found)

    def __await__(self) -> Any:
        return self.value
        yield

    async def __aenter__(self) -> Awaited:
        return Awaited(self.value.__enter__())

    async def __aexit__(self, *given: Any) -> None:
        self.value.__exit__(*given)

    def __aiter__(self) -> AsyncIterator[Any]:
        async def items() -> AsyncIterator[Any]:
            for item in self.value:
                yield item

        return items()


def blocking_client(*gateways: str, **options: Any) -> Any:
    return Awaited(borough.Client(*gateways, **options))


FACES = {"asyncio": borough.AsyncClient, "blocking": blocking_client}
FAST = borough.RetryPolicy(attempts=4, backoff=0.01, backoff_max=0.05)


def connect(face: str, *gateways: str, **options: Any) -> Any:
    """A client of one face, with short pauses."""
    settings = {"user": "alice", "cell": "alpha", "retry": FAST, "deadline": 10.0} | options
    return FACES[face](*gateways, **settings)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs a test's coroutine, at most a minute."""
    return asyncio.run(asyncio.wait_for(work, 60))


def cursor(stamp: int, epoch: int = 1) -> common_pb2.Cursor:
    """A position."""
    return common_pb2.Cursor(store_epoch=epoch, stamp=stamp.to_bytes(10, "big"))

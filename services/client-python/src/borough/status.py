"""What a failed try came to: the status of gRPC, decoded into values of this library. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2

from .errors import Code, FieldViolation, Precondition, Refusal

_DETAILS = "grpc-status-details-bin"
_ON_HTTP_PORT = "this port answers HTTP; for gRPC"
_NO_TLS = "no gateway that encrypts"
# What grpcio says of a peer that answers a TLS handshake in plain text.
_PLAIN = "WRONG_VERSION_NUMBER"
_NO_GATEWAY = "no gateway, but a web server or another service"

# What grpcio says of a peer that speaks something else than gRPC over HTTP/2.
_FOREIGN = (
    "http1.x server",
    "http2 header with status",
    "content-type",
    "Failed parsing HTTP/2",
    "incorrect client connection preamble",
    "frame_size",
    "Expected SETTINGS frame as the first frame",
)

# What grpcio says of a connection that broke. A gateway's own texts have none of these. The last one comes if a message
# was being sent when the stream ended, and hides the status of that end.
_BROKEN = (
    "RST_STREAM",
    "Stream removed",
    "Socket closed",
    "Connection reset",
    "GOAWAY",
    "Broken pipe",
    "recvmsg:",
    "sendmsg:",
    "Internal error from Core",
)
_UNSENT = "failed to connect to all addresses"
_SILENT = "timed out before receiving SETTINGS frame"


@dataclass(frozen=True, slots=True)
class Status:
    """The end of one try without an answer."""

    refusal: Refusal
    broken: bool = False
    """The connection broke: the code is one of the transport, and no gateway's."""
    unsent: bool = False
    """No connection was made, so the gateway knows nothing of the call."""
    silent: bool = False
    """Something accepts connections, and says nothing."""
    foreign: str | None = None
    """What answered instead of a gateway."""

    @property
    def code(self) -> Code:
        """The code of gRPC."""
        return self.refusal.code


def status_of(error: grpc.RpcError) -> Status:
    """Decodes an error of grpcio, of the asyncio or of the blocking kind."""
    known: Any = error
    code = Code(known.code().value[0])
    message = known.details() or ""
    details = [bytes(value) for key, value in known.trailing_metadata() or () if key == _DETAILS]
    return Status(
        refusal_of(code, message, details[0] if details else b""),
        broken=any(text in message for text in _BROKEN),
        unsent=message.startswith(_UNSENT),
        silent=_SILENT in message,
        foreign=foreign_answer(code, message),
    )


def foreign_answer(code: Code, message: str) -> str | None:
    """What answers instead of the gRPC port of a gateway; None if a gateway may have answered, or nothing has."""
    if message.startswith(_ON_HTTP_PORT):
        return "the HTTP port of a gateway"
    if code is Code.UNAVAILABLE and _PLAIN in message:
        return _NO_TLS
    is_transport = code in (Code.UNAVAILABLE, Code.UNKNOWN, Code.INTERNAL, Code.UNIMPLEMENTED, Code.CANCELLED)
    return _NO_GATEWAY if is_transport and any(text in message for text in _FOREIGN) else None


def refusal_of(code: Code, message: str, details: bytes) -> Refusal:
    """A refusal with what `grpc-status-details-bin` says. Details that cannot be read are left out."""
    try:
        packed = status_pb2.Status.FromString(details).details
    except DecodeError:
        packed = ()
    info = unpacked(packed, error_details_pb2.ErrorInfo)
    retry = unpacked(packed, error_details_pb2.RetryInfo)
    bad = unpacked(packed, error_details_pb2.BadRequest)
    unmet = unpacked(packed, error_details_pb2.PreconditionFailure)
    return Refusal(
        code=code,
        message=message,
        reason=info.reason if info else "",
        metadata=dict(info.metadata) if info else {},
        fields=tuple(FieldViolation(each.field, each.description) for each in (bad.field_violations if bad else ())),
        preconditions=tuple(
            Precondition(each.type, each.subject, each.description) for each in (unmet.violations if unmet else ())
        ),
        retry_after=retry.retry_delay.ToNanoseconds() / 1e9 if retry else None,
    )


def unpacked(packed: Iterable[AnyMessage], kind: type[Message]) -> Any:
    """The first detail of a kind; None without one."""
    for each in packed:
        if each.Is(kind.DESCRIPTOR):
            try:
                message = kind()
                each.Unpack(message)
            except DecodeError:
                return None
            return message
    return None

"""What both transports share: the options of channels, and the ends of a try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc

from ..config import ClientConfig
from ..status import Status, status_of

_REQUEST_BYTES_MAX = 4 << 20
_RESPONSE_BYTES_MAX = 64 << 20


class StatusError(Exception):
    """A try has ended without an answer."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.refusal.message)
        self.status = status

    @classmethod
    def of(cls, error: grpc.RpcError) -> StatusError:
        """The end that an error of grpcio stands for."""
        return cls(status_of(error))


class NotYet(Exception):  # noqa: N818
    """Nothing has come within the time. Whatever was waited for goes on."""


class Ended(Exception):  # noqa: N818
    """The stream was cancelled on this side."""


def options(config: ClientConfig) -> Sequence[tuple[str, Any]]:
    """The options of a channel to a gateway."""
    return [
        ("grpc.enable_http_proxy", 0),
        # The library itself tries again, and counts.
        ("grpc.enable_retries", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", 100),
        # Less than the tries of one call take together: they find a gateway that is back.
        ("grpc.max_reconnect_backoff_ms", 300),
        # The time limit of one connection, whatever its name says.
        ("grpc.min_reconnect_backoff_ms", int(config.connect_timeout * 1_000)),
        # A peer that vanished is noticed within fifteen seconds, also by idle watches.
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.max_send_message_length", _REQUEST_BYTES_MAX),
        ("grpc.max_receive_message_length", _RESPONSE_BYTES_MAX),
    ]


def credentials(config: ClientConfig) -> grpc.ChannelCredentials | None:
    """The credentials of a channel; None: plain HTTP/2."""
    if config.tls is None:
        return None
    ca, certificate, key = config.tls.read()
    return grpc.ssl_channel_credentials(ca, key, certificate)

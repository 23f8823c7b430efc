"""Errors of calls: a gateway was not reached, did not answer in time, or refused with a reason."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


class Code(enum.IntEnum):
    """The codes of gRPC, with the numbers that they have on the wire."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """A field of a request that is refused."""

    field: str
    """Its path, such as `task.ports[0].number`."""
    description: str
    """What is wrong with it, and what would be accepted."""

    def __str__(self) -> str:
        return f"{self.field}: {self.description}"


@dataclass(frozen=True, slots=True)
class Precondition:
    """A condition that is not met."""

    kind: str
    """The kind of the condition, such as `JOB`."""
    subject: str
    """What it is about, such as `alice/web`."""
    description: str
    """What is not as it must be."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The refusal of a gateway, with its details."""

    code: Code
    """The code of gRPC."""
    message: str
    """One sentence for people."""
    reason: str = ""
    """The reason for programs, such as `JOB_DIFFERS`; empty if none came."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Facts about the reason."""
    fields: tuple[FieldViolation, ...] = ()
    """The fields of the request that are refused, each with advice."""
    preconditions: tuple[Precondition, ...] = ()
    """The conditions that are not met."""
    retry_after: float | None = None
    """Seconds after which the gateway asks to come again, if it said so."""

    @property
    def is_agent_away(self) -> bool:
        """Whether the agent of a task's node does not answer. The metadata names the `node` and the `task`."""
        return self.reason in ("AGENT_AWAY", "NODE_SILENT", "NODE_LOST")

    def __str__(self) -> str:
        return self.message or self.code.name


class BoroughError(Exception):
    """The base of every error of this library."""


class RefusedError(BoroughError):
    """The gateway refused the call. Its message says what would be accepted."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal
        """The refusal with all its details."""

    @property
    def code(self) -> Code:
        """The code of gRPC."""
        return self.refusal.code

    @property
    def reason(self) -> str:
        """The reason for programs; empty if none came."""
        return self.refusal.reason

    @property
    def metadata(self) -> Mapping[str, str]:
        """Facts about the reason."""
        return self.refusal.metadata

    @property
    def fields(self) -> tuple[FieldViolation, ...]:
        """The fields that are refused."""
        return self.refusal.fields

    @property
    def preconditions(self) -> tuple[Precondition, ...]:
        """The conditions that are not met."""
        return self.refusal.preconditions

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the gateway asks to come again."""
        return self.refusal.retry_after


class TokenRefusedError(RefusedError):
    """The gateway accepts no call with this token, or without one. Give another one."""

    def __init__(self, refusal: Refusal, gateways: Sequence[str], token: str | None) -> None:
        super().__init__(refusal)
        self.gateways = tuple(gateways)
        """The addresses of the gateways."""
        self.token = token
        """Where the token is from; None: none was sent."""

    def __str__(self) -> str:
        why = f": {self.refusal.message}" if self.reason in ("TOKEN_REFUSED", "CERTIFICATE_REFUSED") else ""
        at = f"the gateway at {', '.join(self.gateways)}"
        if self.token is not None:
            return f"{at} does not accept the token of {self.token}{why}"
        return f"{at} needs a token or another certificate{why}" if why else f"{at} needs a token, and none is given"


class ConnectionFailedError(BoroughError):
    """No gateway answered the call. The base of the errors without an answer."""

    def __init__(self, message: str, gateways: Sequence[str], *, changes: bool = False) -> None:
        super().__init__(message)
        self.gateways = tuple(gateways)
        """The addresses that were tried."""
        self.changes = changes
        """Whether the call may have changed something. Repeat it under the same request id, or look."""


class UnreachableError(ConnectionFailedError):
    """No gateway could be reached, or all of them were unavailable. The call may be repeated."""

    def __init__(
        self, gateways: Sequence[str], attempts: int, last: Refusal | None = None, *, changes: bool = False
    ) -> None:
        message = f"no gateway answered at {', '.join(gateways)} (attempts: {attempts})"
        super().__init__(f"{message}: {last}" if last else message, gateways, changes=changes)
        self.attempts = attempts
        """The number of tries, over all gateways."""
        self.last = last
        """What the last try came to."""


class DeadlineError(ConnectionFailedError):
    """The call was not over in time. A change may have had its effect (`changes`)."""

    def __init__(self, method: str, deadline: float, gateways: Sequence[str], *, changes: bool) -> None:
        at = ", ".join(gateways)
        super().__init__(
            f"the gateway at {at} did not answer within {deadline:g} s ({method})", gateways, changes=changes
        )
        self.method = method
        """The method of the API."""
        self.deadline = deadline
        """The deadline in seconds."""


class NotGatewayError(ConnectionFailedError):
    """What answers at an address is not the gRPC port of a gateway. Correct the address."""

    def __init__(self, gateways: Sequence[str], what: str) -> None:
        super().__init__(f"{', '.join(gateways)} is {what}; accepted: the gRPC port of a gateway", gateways)
        self.what = what
        """What answers there, as far as its answer shows."""


class InvalidError(BoroughError, ValueError):
    """The library refused values before it sent anything. Every wrong field is named at once."""

    def __init__(self, fields: Sequence[FieldViolation]) -> None:
        self.fields = tuple(fields)
        """The fields, each with its value and what would be accepted."""
        lines = [str(violation) for violation in self.fields]
        head = f"{len(lines)} fields are wrong:\n  " if len(lines) > 1 else ""
        super().__init__(head + "\n  ".join(lines))

    @classmethod
    def of(cls, name: str, value: object, accepted: str) -> InvalidError:
        """The refusal of one value."""
        return cls([refused_field(name, value, accepted)])


def refused_field(name: str, value: object, accepted: str) -> FieldViolation:
    """A field that is refused, with its value (cut where it is long) and what would be accepted."""
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    if len(shown) > 80:
        shown = f"{shown[:80]}..."
    return FieldViolation(name, f"{shown}; accepted: {accepted}")


class IncompleteError(BoroughError):
    """An answer lacks a field: client and gateway have versions too far apart."""

    def __init__(self, method: str, missing: str) -> None:
        super().__init__(f"the answer to {method} lacks `{missing}`: client and gateway are of different versions")


class ClosedError(BoroughError):
    """The client, or the stream, was closed before the call ended."""

    def __init__(self, what: str = "the client is closed") -> None:
        super().__init__(what)

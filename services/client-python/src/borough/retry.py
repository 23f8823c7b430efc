"""Decides whether a call is tried again, and after which pause. Pure: random numbers and times are arguments."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import Code, InvalidError
from .status import Status

_SILENT = ("NODE_SILENT", "NODE_LOST", "FEDERATION_SILENT")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how fast calls are tried again. Times are in seconds.

    The default is six tries over about a second and a half. A gateway restarts within that time, and a person does not
    wait longer to hear that none is reachable.
    """

    attempts: int = 6
    """The most tries, the first one included."""
    backoff: float = 0.05
    """The pause before the second try, doubled for each further one."""
    backoff_max: float = 2.0
    """The longest pause."""

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidError.of("retry.attempts", self.attempts, "1 or more")
        if not 0 <= self.backoff <= self.backoff_max:
            raise InvalidError.of("retry.backoff", self.backoff, f"0 to backoff_max, {self.backoff_max:g}")

    def pause(self, attempts: int, random: float) -> float:
        """The pause after so many failed tries: between half and all of the doubled step, by a number from 0 to 1.

        Clients that lost the same gateway therefore do not come back together.
        """
        step = min(self.backoff * 2.0 ** min(max(attempts - 1, 0), 16), self.backoff_max)
        return step * (0.5 + random / 2)


def worth_repeating(status: Status) -> bool:
    """Whether the same call may succeed on another try.

    Every call is safe to repeat: reads change nothing, and a change carries its request id.
    """
    code, refusal = status.code, status.refusal
    if code is Code.UNAVAILABLE:
        # A gateway that knows that a node or the federation is silent has asked often enough.
        return refusal.reason not in _SILENT
    if code is Code.DEADLINE_EXCEEDED:
        return True
    return status.broken and code in (Code.UNKNOWN, Code.INTERNAL, Code.CANCELLED)


def overload_pause(status: Status) -> float | None:
    """How many seconds a gateway that has too much to do asks to wait; None for every other status."""
    refusal = status.refusal
    if status.code is Code.RESOURCE_EXHAUSTED and refusal.reason == "OVERLOADED":
        return refusal.retry_after
    return None

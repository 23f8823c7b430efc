"""How long no gateway answers a stream: when its reader is notified, and when the client gives up. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .errors import BoroughError

# The reader is notified after so many seconds. A gateway that restarts is mostly back sooner.
_NOTIFIED_AFTER = 3.0


@dataclass(frozen=True, slots=True)
class Absent:
    """No gateway answers. The stream goes on as soon as one does, and says this once until then."""

    error: BoroughError
    """What the last try came to."""
    gives_up_in: float | None = None
    """The seconds until the stream gives up; None: it never does."""


class OutageStep(enum.Enum):
    """What an outage has come to."""

    NOTIFY = "notify"
    GIVE_UP = "give up"


class Outage:
    """The time since a stream broke without a message from any gateway."""

    def __init__(self, begun: float, patience: float | None) -> None:
        self._notify_at: float | None = begun + _NOTIFIED_AFTER
        self._end_at = None if patience is None else begun + patience
        self._patience = patience

    def left(self, now: float) -> float | None:
        """The seconds until the next step; None: there is none."""
        times = [at for at in (self._notify_at, self._end_at) if at is not None]
        return max(0.0, min(times) - now) if times else None

    def step(self, now: float) -> OutageStep | None:
        """The step that is due. Each comes once."""
        if self._end_at is not None and now >= self._end_at:
            return OutageStep.GIVE_UP
        if self._notify_at is not None and now >= self._notify_at:
            self._notify_at = None
            return OutageStep.NOTIFY
        return None

    def absence(self, error: BoroughError) -> Absent:
        """What the reader is notified."""
        left = None if self._patience is None else max(0.0, self._patience - _NOTIFIED_AFTER)
        return Absent(error, left)

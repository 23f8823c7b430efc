"""Which part of a task's output is read, and what a read may wait for."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import Refusal
from .outage import Absent
from .v1 import LogStream


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which part of a task's output is read. The default is all kept output of both streams."""

    stream: LogStream = LogStream.UNSPECIFIED
    """One stream; `UNSPECIFIED` is both."""
    tail_lines: int | None = None
    """Whole lines from the end; None: all kept ones."""
    follow: bool = False
    """Streams new output until the attempt ends."""
    incarnation: int | None = None
    """The attempt; None: the current or last one."""
    since: float | None = None
    """Only what was written in the last so many seconds."""
    times: bool = False
    """Also says when the output was written."""
    helper: str = ""
    """The output of this helper; empty: that of the task's command."""
    window_bytes: int = 0
    """How much the gateway holds for a slow reader; 0: the usual amount."""


@dataclass(frozen=True, slots=True)
class AgentAway:
    """The agent of the task's node does not answer. The read goes on when it is back."""

    refusal: Refusal
    """What the gateway says. The metadata names the node."""


LogWait = AgentAway | Absent
"""What a read of a log waits for. It says so once, until it has an answer."""

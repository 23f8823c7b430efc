"""The tries of one call: what a failed one leads to, and the error when none is left. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .config import ClientConfig
from .errors import (
    BoroughError,
    Code,
    DeadlineError,
    NotGatewayError,
    RefusedError,
    TokenRefusedError,
    UnreachableError,
)
from .methods import Method
from .retry import overload_pause, worth_repeating
from .status import Status


def refused(config: ClientConfig, status: Status) -> BoroughError:
    """The error of a status that is not repeated."""
    if status.foreign is not None:
        return NotGatewayError(config.gateways, status.foreign)
    if status.code is Code.UNAUTHENTICATED:
        return TokenRefusedError(status.refusal, config.gateways, config.token_source)
    return RefusedError(status.refusal)


@dataclass
class Tries:
    """The failed tries of one call."""

    config: ClientConfig
    method: Method[Any, Any]
    deadline: float
    count: int = 0
    last: Status | None = None
    asked: set[int] = field(default_factory=set)
    _busy: Status | None = None
    _foreign: str | None = None

    def limit(self, number: int, left: float) -> float:
        """The seconds that one try may take: a share of what is left, since a gateway may be silent for ever."""
        self.asked.add(number)
        unasked = len(self.config.gateways) - len(self.asked)
        return left / (unasked + 1)

    def failed(self, status: Status, random: float, *, late: bool) -> float:
        """Records a failed try. Returns the seconds to wait before the next one.

        `late`: this client has ended the try, because its share of the time was over.

        Raises the error of the call if no further try is worth it.
        """
        asked = overload_pause(status)
        if asked is not None:
            self._busy = status
            # Those that were refused together do not come back together.
            return asked + self.config.retry.pause(1, random)
        if late or status.silent:
            return 0.0
        if not worth_repeating(status):
            raise refused(self.config, status)
        self.count += 1
        self.last = status
        # Something else may close later connections at once, which says less.
        self._foreign = self._foreign or status.foreign
        if self.count >= self.config.retry.attempts:
            raise self._unreachable()
        return self.config.retry.pause(self.count, random)

    def out_of_time(self) -> BoroughError:
        """The error of a call that is out of time. The last failure says more than that."""
        if self._busy is not None:
            return refused(self.config, self._busy)
        if self.count == 0:
            return DeadlineError(self.method.name, self.deadline, self.config.gateways, changes=self.method.changes)
        return self._unreachable()

    def _unreachable(self) -> BoroughError:
        return unreachable(self.config, self.method, self.count, self.last, self._foreign)


def unreachable(
    config: ClientConfig, method: Method[Any, Any], attempts: int, last: Status | None, foreign: str | None = None
) -> BoroughError:
    """The error after tries without an answer."""
    if last is not None and last.refusal.is_agent_away:
        # A gateway that says so answers.
        return RefusedError(last.refusal)
    foreign = foreign or (last.foreign if last else None)
    if foreign is not None:
        return NotGatewayError(config.gateways, foreign)
    sent = method.changes and not (last is not None and last.unsent)
    return UnreachableError(config.gateways, attempts, last.refusal if last else None, changes=sent)


def failed_once(config: ClientConfig, method: Method[Any, Any], status: Status) -> BoroughError:
    """The error of a call that is not tried again."""
    return unreachable(config, method, 1, status) if worth_repeating(status) else refused(config, status)

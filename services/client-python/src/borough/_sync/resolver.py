# Generated from ../_async by `generate`. Do not edit.
"""Keeps the addresses of a job up to date."""

from __future__ import annotations

import time
from types import TracebackType

from ..items import EndpointTable, addresses
from .watches import EndpointWatch


class Resolver:
    """The addresses of the endpoints of a job, as a watch describes them. Use it in `async with`, or close it.

    Addresses that are known stay in use while no gateway answers.
    """

    def __init__(self, watch: EndpointWatch, port: str | None) -> None:
        self._watch, self._port = watch, port
        self._table = EndpointTable()
        self._is_complete = False

    def addresses(self, *, timeout: float = 10.0) -> list[str]:
        """The present addresses as `HOST:PORT`, each once. Waits for the first complete list, at most so long.

        Changes that have come since the last call are taken into account.
        """
        until = time.monotonic() + timeout
        while not self._is_complete and time.monotonic() < until:
            self._take(until - time.monotonic())
        while self._take(0.0):
            pass
        return self._known()

    def changed(self, *, timeout: float | None = None) -> list[str] | None:
        """The addresses after the next change of them; None if none comes within the timeout, or the watch is over."""
        before = self._known() if self._is_complete else None
        until = None if timeout is None else time.monotonic() + timeout
        while until is None or time.monotonic() < until:
            if not self._take(60.0 if until is None else until - time.monotonic()) and until is not None:
                continue
            if self._is_complete and self._known() != before:
                return self._known()
        return None

    def _take(self, seconds: float) -> bool:
        """Takes the next item of the watch into account. Returns whether one came."""
        item = self._watch.poll(seconds)
        if item is None:
            return False
        if self._table.apply(item):
            self._is_complete = True
        return True

    def _known(self) -> list[str]:
        return sorted(set(addresses(self._table, self._port)))

    def close(self) -> None:
        """Ends the watch below."""
        self._watch.close()

    def __enter__(self) -> Resolver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

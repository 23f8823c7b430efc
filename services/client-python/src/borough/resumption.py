"""Decides where a broken stream resumes, and which of its messages were delivered before. Pure.

All changes of one commit share one cursor, and a stream may break between them. A watch that resumed from that cursor
would lose the rest of the commit. It therefore resumes from the last complete cursor, which the last change of a commit
and every bookmark mark. It skips as many changes after that as the broken stream had delivered.
"""

from __future__ import annotations

from .v1 import Cursor


def is_before(left: Cursor, right: Cursor) -> bool:
    """Whether one cursor is before another. Cursors of different epochs have no order."""
    return left.store_epoch == right.store_epoch and left.stamp < right.stamp


class Resumption:
    """The delivered part of a watch."""

    def __init__(self, base: Cursor | None) -> None:
        self.restart(base)

    def restart(self, base: Cursor | None) -> None:
        """Continues after `base`, or with a snapshot."""
        self.base = base
        """Everything up to and with this cursor was delivered. None: a snapshot is incomplete."""
        self._newest: Cursor | None = None
        self._delivered = 0
        self._sent = 0

    def reopened(self) -> Cursor | None:
        """Where a new stream starts. None: with a snapshot."""
        self._sent = 0
        return self.base

    @property
    def in_snapshot(self) -> bool:
        """Whether a snapshot is incomplete."""
        return self.base is None

    def complete(self, cursor: Cursor) -> None:
        """Records that everything up to `cursor` was sent."""
        if not any(known is not None and is_before(cursor, known) for known in (self.base, self._newest)):
            self.restart(cursor)

    def accept(self, cursor: Cursor) -> bool:
        """Whether a change with `cursor` is new. Counts it as delivered."""
        base, newest = self.base, self._newest
        if base is None:
            return True
        if cursor == base or is_before(cursor, base):
            return False
        if newest is not None and newest == cursor:
            self._sent += 1
            new = self._sent > self._delivered
            self._delivered = max(self._delivered, self._sent)
            return new
        if newest is not None and is_before(cursor, newest):
            return False
        if newest is not None:
            self.base = newest
        self._newest = cursor
        self._delivered = self._sent = 1
        return True

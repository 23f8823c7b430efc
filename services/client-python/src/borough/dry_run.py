"""Dry runs: what a change would do, without making it."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import BoroughError
from .v1 import DryRunEffect, dry_run_pb2


class DryRun(BoroughError):  # noqa: N818
    """What a change would do. A gateway has checked the change, and nothing has changed.

    Each change of a client `with_dry_run()` ends with it, or with the refusal of the change. Somebody else may have
    changed the cell by the time that the change is made.
    """

    def __init__(
        self, method: str, *, changes: bool = False, effects: Sequence[DryRunEffect] = (), effects_left_out: int = 0
    ) -> None:
        super().__init__(f"a dry run of {method}: nothing has changed")
        self.method = method
        """The method of the API, such as `StopJob`. Of `Exec` no gateway is asked, so the other fields are empty."""
        self.changes = changes
        """Whether anything would change."""
        self.effects = tuple(effects)
        """What would happen to each object: at most 1,000 of them."""
        self.effects_left_out = effects_left_out
        """How many further objects there are."""

    @classmethod
    def of(cls, method: str, answer: dry_run_pb2.DryRunResponse) -> DryRun:
        """What a gateway has answered."""
        effects = [DryRunEffect.from_message(each) for each in answer.effects]
        return cls(method, changes=answer.changes, effects=effects, effects_left_out=answer.effects_left_out)

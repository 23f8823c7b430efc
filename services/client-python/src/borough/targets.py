"""What both balancing channels share: their targets, and the order in which endpoints are picked. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from .errors import BoroughError, InvalidError
from .refs import NAME, JobRef

E = TypeVar("E")

_SCHEME = "borough:///"


class NoEndpointError(BoroughError):
    """The job has no endpoint, or none within the time."""


def target_of(target: str) -> tuple[JobRef, str]:
    """The job and the cell of `borough:///JOB.USER.CELL`."""
    parts = target.removeprefix(_SCHEME).split(".")
    if not target.startswith(_SCHEME) or len(parts) != 3 or not all(NAME.fullmatch(part) for part in parts):
        raise InvalidError.of("target", target, "borough:///JOB.USER.CELL")
    return JobRef(parts[1], parts[0]), parts[2]


def interleaved(items: Sequence[E], weights: Sequence[int]) -> list[E]:
    """Each item as often as its weight says, spread evenly (smooth weighted round robin)."""
    credit = [0] * len(items)
    total = sum(weights)
    order = []
    for _ in range(total):
        credit = [each + weight for each, weight in zip(credit, weights, strict=True)]
        chosen = max(range(len(items)), key=credit.__getitem__)
        credit[chosen] -= total
        order.append(items[chosen])
    return order

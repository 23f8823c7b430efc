"""The text of a join token, by which the agent of a node joins a cell."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from .v1 import NodeJoin


def join_token_new() -> str:
    """A new join token, from the randomness of the system."""
    return f"borough-join-{secrets.token_hex(32)}"


@dataclass(frozen=True, slots=True)
class IssuedJoinToken:
    """A new join token."""

    token: str = field(repr=False)
    """What the agent reads from the file of `--join-token-file`. The cell has its digest only."""
    join: NodeJoin
    """What the node name has now."""

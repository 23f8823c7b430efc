"""What the library knows of a method of the API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import Message

Q = TypeVar("Q", bound=Message)
S = TypeVar("S", bound=Message)

_READS = ("Get", "List", "Plan", "Explain", "Read", "Watch", "Check", "DryRun")


@dataclass(frozen=True, slots=True)
class Method(Generic[Q, S]):
    """A method of a service: its path, and the messages that go and come."""

    path: str
    request: type[Q]
    response: type[S]

    @property
    def name(self) -> str:
        """Its name, such as `SubmitJob`."""
        return self.path.rpartition("/")[2]

    @property
    def full_name(self) -> str:
        """Its name with that of its service, such as `JobService/SubmitJob`."""
        return self.path.rpartition(".")[2]

    @property
    def changes(self) -> bool:
        """Whether a call of it may change something."""
        return not self.name.startswith(_READS)

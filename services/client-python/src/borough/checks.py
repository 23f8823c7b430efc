"""Checks the values of a job spec. Every wrong field is reported at once, with its value and what is accepted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from .amounts import Bytes, Cpu, Duration, byte_count, cpu_millis, duration_ms, duration_text
from .errors import FieldViolation, InvalidError, refused_field
from .refs import NAME, NAME_ACCEPTED

V = TypeVar("V")

DELAY_MS_MAX = 3_600_000
_KEY = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._/-]{0,127}")
_KEY_ACCEPTED = "1 to 128 of a-z, A-Z, 0-9, '.', '_', '/' and '-', starting with a letter or digit"
_LINE_ACCEPTED = "at most {most} bytes on one line, without control or direction characters"
_VARIABLE = re.compile(r"(?!BOROUGH_|PORT_)[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE_ACCEPTED = "letters, digits and '_', not starting with a digit, nor with BOROUGH_ or PORT_"
_MOVES = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_USED = re.compile(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_AGENT_VARIABLES = {"PATH", "HOME", "HOST", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}


class Checks:
    """The wrong fields so far."""

    def __init__(self) -> None:
        self._wrong: list[FieldViolation] = []

    def done(self) -> None:
        """Raises `InvalidError` if a field was wrong."""
        if self._wrong:
            raise InvalidError(self._wrong)

    def refuse(self, path: str, value: object, accepted: str) -> None:
        """Reports a wrong field."""
        self._wrong.append(refused_field(path, value, accepted))

    def require(self, is_fine: bool, path: str, value: object, accepted: str) -> None:
        """Reports a field unless it is fine."""
        if not is_fine:
            self.refuse(path, value, accepted)

    def items(self, path: str, given: Iterable[V], accepted: str) -> list[V]:
        """The items of a list; none, and a report, if it is no list. A text is none."""
        if isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
            return list(given)
        self.refuse(path, given, accepted)
        return []

    def mapping(self, path: str, given: Mapping[str, V], accepted: str) -> dict[str, V]:
        """A map with keys of text; an empty one, and a report, if it is none."""
        if isinstance(given, Mapping) and all(isinstance(key, str) for key in given):
            return dict(given)
        self.refuse(path, given, accepted)
        return {}

    def of_kind(self, path: str, value: object, kind: type[Any] | tuple[type[Any], ...], accepted: str) -> bool:
        """Whether a value is of a kind, with a report if it is not."""
        is_fine = isinstance(value, kind)
        self.require(is_fine, path, value, accepted)
        return is_fine

    def name(self, path: str, value: str) -> str:
        """A name of a job, a port or a helper."""
        self.require(isinstance(value, str) and NAME.fullmatch(value) is not None, path, value, NAME_ACCEPTED)
        return value

    def whole(self, path: str, value: int, least: int, most: int, what: str = "") -> int:
        """A whole number within bounds."""
        is_fine = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        self.require(is_fine, path, value, f"a whole number, {least} to {most}{what}")
        return value if is_fine else least

    def delay(self, path: str, value: Duration, least: int = 0, most: int = DELAY_MS_MAX) -> int:
        """Milliseconds of a duration within bounds."""
        found = self.read(path, value, duration_ms, "seconds, or a duration such as 250ms, 5s, 2m or 1h30m")
        if found is None:
            return least
        self.require(least <= found <= most, path, value, f"{duration_text(least)} to {duration_text(most)}")
        return found

    def cpu(self, path: str, value: Cpu) -> int:
        """Thousandths of a core."""
        found = self.read(path, value, cpu_millis, "cores such as 2, 0.5 or 500m")
        self.require(found != 0, path, value, "at least one thousandth of a core")
        return found or 0

    def memory(self, path: str, value: Bytes) -> int:
        """Bytes of memory, enough for a process to start."""
        found = self.bytes(path, value)
        self.require(not found or found >= 1 << 20, path, value, "at least 1MiB")
        return found

    def bytes(self, path: str, value: Bytes) -> int:
        """Bytes."""
        return self.read(path, value, byte_count, "bytes such as 1048576, 512k, 64MiB or 1.5G") or 0

    def read(self, path: str, value: V, reader: Callable[[V], int | None], accepted: str) -> int | None:
        """The number that a value means; None, and a report, if it means none."""
        try:
            found = reader(value)
        except (ArithmeticError, TypeError, ValueError):
            found = None
        self.require(found is not None, path, value, accepted)
        return found

    def command(self, path: str, command: Sequence[str]) -> list[str]:
        """A program with its arguments."""
        is_list = isinstance(command, Sequence) and not isinstance(command, (str, bytes))
        if not is_list or not command or not all(isinstance(part, str) for part in command):
            self.refuse(path, command or "nothing", "a list of a program and its arguments")
            return []
        self.require(command[0] != "", path, list(command), "a program and its arguments")
        for at, part in enumerate(command):
            self.require("\0" not in part, f"{path}[{at}]", part, "a text without NUL characters")
        return list(command)

    def environment(self, path: str, variables: Mapping[str, str]) -> dict[str, str]:
        """Variables of a program."""
        given = self.mapping(path, variables, "a map of names and texts")
        for name, value in given.items():
            place = f'{path}["{name}"]'
            self.require(_VARIABLE.fullmatch(name) is not None, place, name, _VARIABLE_ACCEPTED)
            is_fine = isinstance(value, str) and "\0" not in value
            self.require(is_fine, place, value, "a text without NUL characters")
        return given

    def variable(self, path: str, name: str) -> str:
        """The name of a variable."""
        is_fine = isinstance(name, str) and _VARIABLE.fullmatch(name) is not None
        self.require(is_fine, path, name, _VARIABLE_ACCEPTED)
        return name

    def variables_used(self, path: str, command: Sequence[str], known: set[str]) -> None:
        """Refuses each part of a command that names a variable that no task has: it would fail at each start."""
        for at, part in enumerate(command):
            for name in _USED.findall(part):
                is_known = name in known or name in _AGENT_VARIABLES or name.startswith("BOROUGH_")
                accepted = f"a variable of the task, its ports or Borough's; a plain one is written $${{{name}}}"
                self.require(is_known, f"{path}[{at}]", f"${{{name}}}", accepted)

    def key(self, path: str, key: str) -> str:
        """The key of a label or an attribute."""
        self.require(isinstance(key, str) and _KEY.fullmatch(key) is not None, path, key, _KEY_ACCEPTED)
        return key

    def line(self, path: str, text: str, most: int = 256) -> str:
        """A short text on one line."""
        is_fine = isinstance(text, str) and len(text.encode()) <= most and not _MOVES.search(text)
        self.require(is_fine, path, text, _LINE_ACCEPTED.format(most=most))
        return text

    def labels(self, path: str, labels: Mapping[str, str]) -> dict[str, str]:
        """Labels."""
        given = self.mapping(path, labels, "a map of keys and texts")
        self.require(len(given) <= 64, path, f"{len(given)} labels", "at most 64")
        for key, value in given.items():
            place = f'{path}["{key}"]'
            self.key(place, key)
            self.line(place, value)
        return given

    def choice(self, path: str, value: Any, choices: Mapping[str, V]) -> V:
        """One of some words."""
        if isinstance(value, str) and value in choices:
            return choices[value]
        self.refuse(path, value, " or ".join(choices) if len(choices) < 3 else f"one of {', '.join(choices)}")
        return next(iter(choices.values()))

"""Reads amounts and durations as job files write them, and plain numbers."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

Cpu = int | float | str
"""Cores: `2`, `0.5`, `"500m"`."""
Bytes = int | str
"""Bytes: `1048576`, `"512k"`, `"64MiB"`, `"1.5G"`."""
Duration = int | float | str | timedelta
"""Seconds as a number, a `timedelta`, or a text such as `"250ms"`, `"5s"`, `"1m30s"`."""

_UNITS = {"": 1} | {
    f"{letter}{suffix}": base**power
    for power, letters in enumerate(("kK", "M", "G", "T", "P"), start=1)
    for letter in letters
    for suffix, base in (("", 1_000), ("B", 1_000), ("i", 1_024), ("iB", 1_024))
}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?) ?([a-zA-Z]*)")
_PARTS = re.compile(r"(\d+)(ms|s|m|h|d)")
_MILLIS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def cpu_millis(value: Cpu) -> int | None:
    """Thousandths of a core; None if the value is no amount of cores."""
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(m?)", value)
        if match is None:
            return None
        exact = Decimal(match[1]) * (1 if match[2] else 1_000)
    else:
        exact = number(value) * 1_000
    return whole(exact)


def byte_count(value: Bytes) -> int | None:
    """Bytes; None if the value is no amount of them."""
    if not isinstance(value, str):
        return whole(number(value))
    match = _AMOUNT.fullmatch(value)
    unit = _UNITS.get(match[2]) if match is not None else None
    return whole(Decimal(match[1]) * unit) if match is not None and unit is not None else None


def duration_ms(value: Duration) -> int | None:
    """Milliseconds; None if the value is no duration. One below a whole millisecond is refused."""
    if isinstance(value, timedelta):
        return whole(Decimal(value // timedelta(microseconds=1)) / 1_000)
    if not isinstance(value, str):
        return whole(number(value) * 1_000)
    parts = _PARTS.findall(value)
    if not parts or "".join(count + unit for count, unit in parts) != value:
        return None
    return sum(int(count) * _MILLIS[unit] for count, unit in parts)


def number(value: float) -> Decimal:
    """A number as it is written: 0.1 is a tenth."""
    return Decimal(str(value)) if not isinstance(value, bool) else Decimal("NaN")


def whole(value: Decimal) -> int | None:
    """A whole number that is not negative; None for every other one."""
    if not value.is_finite() or value < 0 or value != value.to_integral_value():
        return None
    return int(value)


def duration_text(milliseconds: int) -> str:
    """A duration in the largest unit of which it is a whole number."""
    for unit in ("h", "m", "s"):
        if milliseconds and milliseconds % _MILLIS[unit] == 0:
            return f"{milliseconds // _MILLIS[unit]}{unit}"
    return f"{milliseconds}ms" if milliseconds else "0s"

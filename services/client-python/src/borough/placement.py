"""Reads the short texts about where tasks run: constraints, tolerations and spreads, as job files have them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .checks import Checks
from .v1 import (
    Affinity,
    AffinityKind,
    Constraint,
    ConstraintOperator,
    Spread,
    TaintEffect,
    Toleration,
    TolerationOperator,
)

Constraints = Iterable[str | Constraint]
"""Texts such as `rack in [r1, r2]`, `arch == x86_64`, `ssd exists` or `old absent prefer 50`; or records."""

Spreads = Iterable[str | Spread] | Mapping[str, int]
"""Attributes that name failure domains, the first weighing most, or with their weights; or records."""

Tolerations = Iterable[str | Toleration]
"""Keys of taints, or records."""

_WEIGHTS = (100, 50, 25, 12, 6, 3, 1, 1)
_ACCEPTED = "a text such as rack in [r1, r2], arch == x86_64, cpu.count > 8, ssd exists or old absent prefer 50"
_VALUE = r'(?:"(?P<quoted>[^"]*)"|(?P<plain>[^\s"\[\],]+))'
_PREFER = r"(?:\s+prefer\s+(?P<prefer>\d+))?"
_MEMBERS = re.compile(rf"(?P<attribute>\S+)\s+(?P<word>in|not in)\s+\[(?P<list>[^\]]*)\]{_PREFER}")
_PRESENCE = re.compile(rf"(?P<attribute>\S+)\s+(?P<word>exists|absent){_PREFER}")
_COMPARED = re.compile(rf"(?P<attribute>\S+)\s*(?P<word>==|!=|>|<)\s*{_VALUE}{_PREFER}")
_OPERATORS = {
    "in": ConstraintOperator.IN,
    "not in": ConstraintOperator.NOT_IN,
    "==": ConstraintOperator.IN,
    "!=": ConstraintOperator.NOT_IN,
    ">": ConstraintOperator.GREATER_THAN,
    "<": ConstraintOperator.LESS_THAN,
    "exists": ConstraintOperator.EXISTS,
    "absent": ConstraintOperator.ABSENT,
}


def constraint_of(text: str) -> Constraint | None:
    """The constraint that a text means; None if it means none."""
    text = text.strip()
    match = _MEMBERS.fullmatch(text) or _PRESENCE.fullmatch(text) or _COMPARED.fullmatch(text)
    if match is None:
        return None
    parts = match.groupdict()
    if parts.get("list") is not None:
        values = tuple(value.strip().strip('"') for value in parts["list"].split(",") if value.strip())
    else:
        value = parts.get("quoted") or parts.get("plain")
        values = (value,) if value is not None else ()
    preference = int(parts["prefer"]) if parts["prefer"] else None
    return Constraint(
        attribute=parts["attribute"], operator=_OPERATORS[parts["word"]], values=values, preference=preference
    )


def constraints_read(checks: Checks, path: str, given: Constraints) -> tuple[Constraint, ...]:
    """Constraints of texts and records."""
    found = []
    for at, each in enumerate(checks.items(path, given, f"a list, each {_ACCEPTED}")):
        constraint = constraint_of(each) if isinstance(each, str) else each
        if not isinstance(constraint, Constraint):
            checks.refuse(f"{path}[{at}]", each, _ACCEPTED)
            continue
        checks.key(f"{path}[{at}].attribute", constraint.attribute)
        if constraint.preference is not None:
            checks.whole(f"{path}[{at}].preference", constraint.preference, 1, 100)
        found.append(constraint)
    return tuple(found)


def spread_read(checks: Checks, given: Spreads) -> tuple[Spread, ...]:
    """Spreads of attributes, weights and records."""
    if isinstance(given, Mapping):
        found = [Spread(attribute=attribute, weight=weight) for attribute, weight in given.items()]
    else:
        weights = iter(_WEIGHTS)
        domains = checks.items("spread", given, "a list of attributes, or a map of attributes and weights")
        found = [Spread(attribute=each, weight=next(weights, 1)) if isinstance(each, str) else each for each in domains]
    checks.require(len(found) <= 8, "spread", f"{len(found)} domains", "at most 8")
    for at, spread in enumerate(found):
        if not checks.of_kind(f"spread[{at}]", spread, Spread, "an attribute, or a Spread"):
            continue
        checks.key(f"spread[{at}].attribute", spread.attribute)
        checks.whole(f"spread[{at}].weight", spread.weight, 1, 100)
    return tuple(found)


def tolerations_read(checks: Checks, given: Tolerations) -> tuple[Toleration, ...]:
    """Tolerations of keys and records."""
    found = [
        Toleration(key=each, operator=TolerationOperator.EXISTS) if isinstance(each, str) else each
        for each in checks.items("tolerations", given, "a list of keys of taints, or of Toleration")
    ]
    for at, toleration in enumerate(found):
        if not checks.of_kind(f"tolerations[{at}]", toleration, Toleration, "the key of a taint, or a Toleration"):
            continue
        if toleration.key or toleration.operator != TolerationOperator.EXISTS:
            checks.key(f"tolerations[{at}].key", toleration.key)
        lasts = toleration.evict_after_ms is not None and toleration.effect != TaintEffect.NO_EXECUTE
        accepted = "none, or the effect no_execute: only such taints drive tasks away"
        checks.require(not lasts, f"tolerations[{at}].evict_after", toleration.evict_after_ms, accepted)
    return tuple(found)


def affinity_read(checks: Checks, given: Iterable[Affinity]) -> tuple[Affinity, ...]:
    """Affinities, as `near` and `apart` make them."""
    found = checks.items("affinity", given, "a list of what `near` and `apart` return")
    for at, each in enumerate(found):
        checks.of_kind(f"affinity[{at}]", each, Affinity, "what `near` or `apart` returns")
    return tuple(found)


def near(attribute: str, *jobs: str | Constraint, preference: int | None = None) -> Affinity:
    """Runs tasks in a domain with a task of jobs that meet all of these conditions on labels, such as `app == cache`.

    `attribute` names the domain: `node.name`, `rack` or any other. With a preference of 1 to 100 it is a wish.
    """
    return _affinity(AffinityKind.NEAR, attribute, jobs, preference)


def apart(attribute: str, *jobs: str | Constraint, preference: int | None = None) -> Affinity:
    """Runs tasks in a domain without tasks of such jobs. Otherwise as `near`."""
    return _affinity(AffinityKind.APART, attribute, jobs, preference)


def _affinity(
    kind: AffinityKind, attribute: str, jobs: tuple[str | Constraint, ...], preference: int | None
) -> Affinity:
    checks = Checks()
    checks.key("affinity.attribute", attribute)
    checks.require(bool(jobs), "affinity.jobs", "none", "1 to 16 requirements on labels, job.name or job.user")
    selected = constraints_read(checks, "affinity.jobs", jobs)
    checks.done()
    return Affinity(kind=kind, attribute=attribute, jobs=selected, preference=preference)

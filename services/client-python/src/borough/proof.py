"""The identities and the secrets of a task, as job files have them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .amounts import Duration
from .checks import Checks
from .v1 import IdentitySpec, SecretForm, SecretReference

_FORMS = {"variable": SecretForm.VARIABLE, "file": SecretForm.FILE}
_IDENTITIES_MAX = 4
_SECRETS_MAX = 16
_PLACE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_PLACE_ACCEPTED = "the path of a file below the secrets of the job's user, such as db/password"
_AUDIENCE = re.compile(r"[!-~]{1,256}")


@dataclass(frozen=True, slots=True)
class Identity:
    """A signed token that a task gets in a file, by which others know who it is."""

    name: str
    """Unique within the task. `BOROUGH_IDENTITY_<NAME>` has the path of the file."""
    audience: str | None = None
    """Who is to accept its tokens; None: the name."""
    ttl: Duration = 3_600
    """How long each token is valid; it is renewed at half of it."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret that the node of a task gives it."""

    name: str
    """The variable, unique within the task."""
    source: str
    """Where the node has it, below the secrets of the job's user."""
    form: str = "variable"
    """`variable`: it has the secret. `file`: it has the path of a file with it. `as` in a job file."""


def identities_read(checks: Checks, identities: Iterable[Identity | str]) -> tuple[IdentitySpec, ...]:
    """The identities of a task. A name alone is its audience too."""
    given = checks.items("task.identities", identities, "a list of names, or of Identity")
    checks.require(len(given) <= _IDENTITIES_MAX, "task.identities", len(given), f"at most {_IDENTITIES_MAX}")
    found: list[IdentitySpec] = []
    for at, each in enumerate(given):
        path = f"task.identities[{at}]"
        identity = Identity(each) if isinstance(each, str) else each
        if not checks.of_kind(path, identity, Identity, "a name, or an Identity"):
            continue
        audience = identity.name if identity.audience is None else identity.audience
        is_fine = isinstance(audience, str) and _AUDIENCE.fullmatch(audience) is not None
        checks.require(is_fine, f"{path}.audience", audience, "1 to 256 characters of visible ASCII")
        name = checks.name(f"{path}.name", identity.name)
        checks.require(name not in [other.name for other in found], f"{path}.name", name, "each name once")
        ttl_ms = checks.delay(f"{path}.ttl", identity.ttl, 30_000, 86_400_000)
        found.append(IdentitySpec(name=name, audience=audience, ttl_ms=ttl_ms))
    return tuple(found)


def secrets_read(checks: Checks, secrets: Iterable[Secret], taken: set[str]) -> tuple[SecretReference, ...]:
    """The secrets of a task, whose variables are none of those that are `taken`."""
    given = checks.items("task.secrets", secrets, "a list of Secret")
    checks.require(len(given) <= _SECRETS_MAX, "task.secrets", len(given), f"at most {_SECRETS_MAX}")
    found: list[SecretReference] = []
    for at, each in enumerate(given):
        path = f"task.secrets[{at}]"
        if not checks.of_kind(path, each, Secret, "a Secret"):
            continue
        name = checks.variable(f"{path}.name", each.name)
        accepted = "a name that no other variable of the task has"
        is_free = name not in taken and name not in [other.name for other in found]
        checks.require(is_free, f"{path}.name", name, accepted)
        is_place = isinstance(each.source, str) and _PLACE.fullmatch(each.source) is not None
        checks.require(is_place and len(each.source) <= 256, f"{path}.source", each.source, _PLACE_ACCEPTED)
        form = checks.choice(f"{path}.form", each.form, _FORMS)
        found.append(SecretReference(name=name, source=each.source, form=form))
    return tuple(found)

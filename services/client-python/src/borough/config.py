"""Where a client connects, for whom, and its time limits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .errors import FieldViolation, InvalidError, refused_field
from .refs import NAME, NAME_ACCEPTED
from .retry import RetryPolicy

_ADDRESS_ACCEPTED = "HOST:PORT or http://HOST:PORT, with a port from 1 to 65535; with TLS https://HOST:PORT"
_TOKEN_BYTES_MAX = 8_192


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of PEM for an encrypted connection. Give `certificate` and `key` for mutual TLS."""

    ca: str | os.PathLike[str]
    """The authority of the gateways."""
    certificate: str | os.PathLike[str] | None = None
    """The certificate of the caller."""
    key: str | os.PathLike[str] | None = None
    """The key of the caller's certificate."""

    def read(self) -> tuple[bytes, bytes | None, bytes | None]:
        """The contents of the three files."""
        if (self.certificate is None) != (self.key is None):
            raise InvalidError.of("tls", "one file", "both `certificate` and `key`, or neither")

        def content(name: str, path: str | os.PathLike[str] | None) -> bytes | None:
            if path is None:
                return None
            try:
                return Path(path).read_bytes()
            except OSError as error:
                raise InvalidError.of(
                    f"tls.{name}", str(path), f"a file that can be read ({error.strerror})"
                ) from error

        certificate, key = content("certificate", self.certificate), content("key", self.key)
        return content("ca", self.ca) or b"", certificate, key


@dataclass(frozen=True, slots=True)
class Gateway:
    """The address of a gateway."""

    address: str
    """As it was given."""
    target: str
    """`HOST:PORT`."""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The settings of a client. Times are in seconds."""

    gateways: Sequence[str]
    """Addresses as `HOST:PORT` or `http://HOST:PORT`, tried in order and in rotation; with `tls`, `https://HOST:PORT`."""
    user: str
    """The user of the calls."""
    cell: str
    """The cell of the calls."""
    token: str | None = field(default=None, repr=False)
    """The secret that proves who the caller is."""
    token_file: str | os.PathLike[str] | None = None
    """A file with the token, read once per client. White space around it does not count."""
    tls: Tls | None = None
    """Encrypts connections; None: plain HTTP/2."""
    deadline: float = 10.0
    """The time limit of one call with all its tries. For a stream: until it is open."""
    connect_timeout: float = 2.0
    """The time limit of one connection."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    """When and how often a call is tried again."""
    patience: float | None = None
    """A watch and a log give up if no gateway has answered for so long; None: they never do."""

    def __post_init__(self) -> None:
        wrong = [*self._wrong_texts(), *self._wrong_limits()]
        is_list = isinstance(self.gateways, Sequence) and not isinstance(self.gateways, (str, bytes))
        if not is_list or not self.gateways:
            wrong.append(refused_field("gateways", self.gateways or "none", "a list of one or more addresses"))
        else:
            for at, address in enumerate(self.gateways):
                problem = address_problem(address, encrypted=self.tls is not None)
                if problem:
                    wrong.append(
                        FieldViolation(f"gateways[{at}]", f'"{address}" {problem}; accepted: {_ADDRESS_ACCEPTED}')
                    )
        if self.token is not None and self.token_file is not None:
            wrong.append(refused_field("token", "a token and a token file", "one of both"))
        if wrong:
            raise InvalidError(wrong)

    def _wrong_texts(self) -> list[FieldViolation]:
        names = {"user": self.user, "cell": self.cell}
        wrong = [
            refused_field(name, value, NAME_ACCEPTED)
            for name, value in names.items()
            if not isinstance(value, str) or not NAME.fullmatch(value)
        ]
        kinds: dict[str, tuple[object, Any, str]] = {
            "token": (self.token, str, "a text"),
            "token_file": (self.token_file, (str, os.PathLike), "a path"),
            "tls": (self.tls, Tls, "a Tls"),
        }
        for name, (given, kind, accepted) in kinds.items():
            if given is not None and not isinstance(given, kind):
                # A wrong token is a secret, too.
                shown = type(given).__name__ if name == "token" else given
                wrong.append(refused_field(name, shown, accepted))
        return wrong

    def _wrong_limits(self) -> list[FieldViolation]:
        wrong = []
        for name in ("deadline", "connect_timeout", "patience"):
            value = getattr(self, name)
            is_fine = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
            if not is_fine and not (name == "patience" and value is None):
                wrong.append(refused_field(name, value, "more than 0 seconds"))
        if not isinstance(self.retry, RetryPolicy):
            wrong.append(refused_field("retry", self.retry, "a RetryPolicy"))
        return wrong

    def with_scope(self, user: str | None, cell: str | None) -> ClientConfig:
        """The same settings for another user or cell."""
        return replace(self, user=user or self.user, cell=cell or self.cell)

    def parsed_gateways(self) -> list[Gateway]:
        """The addresses, each with its target."""
        return [Gateway(address, address.rpartition("://")[2].rstrip("/")) for address in self.gateways]

    @property
    def token_source(self) -> str | None:
        """Where the token is from, as errors say it; None without one."""
        if self.token_file is not None:
            return f"the file {os.fspath(self.token_file)}"
        return "the caller" if self.token is not None else None

    def authorization(self) -> str | None:
        """The value of the header that proves who the caller is; None without a token."""
        if self.token_file is not None:
            try:
                with open(self.token_file, "rb") as file:
                    text = file.read(_TOKEN_BYTES_MAX + 1).decode("utf-8", "replace").strip()
            except OSError as error:
                path = os.fspath(self.token_file)
                raise InvalidError.of("token_file", path, f"a file that can be read ({error.strerror})") from error
        elif self.token is not None:
            text = self.token.strip()
        else:
            return None
        problem = token_problem(text)
        if problem:
            advice = f"the token of {self.token_source} {problem}; accepted: one line of visible ASCII characters"
            raise InvalidError([FieldViolation("token", advice)])
        return f"Bearer {text}"


def token_problem(text: str) -> str | None:
    """What keeps a token from being sent; None if nothing does."""
    if not text:
        return "is empty"
    if len(text) > _TOKEN_BYTES_MAX:
        return "has more than 8,192 bytes"
    return None if all("!" <= character <= "~" for character in text) else "has other characters"


def address_problem(address: str, *, encrypted: bool) -> str | None:
    """What is wrong with an address; None if nothing is."""
    if not isinstance(address, str):
        return "is no text"
    scheme, _, rest = address.rpartition("://")
    if scheme == "https" and not encrypted:
        return 'has the scheme "https", and no `tls` says whom to trust'
    if scheme not in ("", "https" if encrypted else "http"):
        return f'has the scheme "{scheme}"'
    place, slash, path = rest.partition("/")
    if not place:
        return "is empty"
    host, colon, port = place.rpartition(":")
    if not colon or port.endswith("]"):
        return "has no port"
    if not host:
        return "has no host"
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        return f'has the port "{port}"'
    if any(character.isspace() for character in host):
        return "is no address"
    return f'has the path "/{path}"' if slash and path else None

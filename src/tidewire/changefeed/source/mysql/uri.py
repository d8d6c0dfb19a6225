"""``mysql://`` URIs: where a MySQL or MariaDB server is, and how to read it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from tidewire.errors import ChangefeedError

INVALID = "CDC:ErrMySQLInvalidConfig"
SCHEMES = ("mysql", "mysql+ssl", "mariadb")
_LARGEST_ID = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Settings:
    """A server and how to read it. Printing it does not show the password."""

    host: str
    port: int = 3306
    user: str = "root"
    password: str = field(default="", repr=False)
    tls: bool = False
    ssl_ca: str | None = None
    ssl_cert: str | None = None
    ssl_key: str | None = None
    time_zone: str | None = None
    snapshot: bool = True
    server_id: int = 0

    @property
    def address(self) -> str:
        """The server in words: ``host:port``."""
        return f"{self.host}:{self.port}"


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ChangefeedError(INVALID, f"{name} in the source URI is true or false, not {text!r}")
    return text.lower() == "true"


def _text(name: str, text: str) -> str:
    if not text:
        raise ChangefeedError(INVALID, f"{name} in the source URI is empty; give it a value or leave it out")
    return text


def _replica_id(name: str, text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _LARGEST_ID:
        raise ChangefeedError(INVALID, f"{name} in the source URI is a number from 1 to {_LARGEST_ID}, not {text!r}")
    return int(text)


_PARAMETERS: Mapping[str, Callable[[str, str], Any]] = {
    "ssl-ca": _text,
    "ssl-cert": _text,
    "ssl-key": _text,
    "time-zone": _text,
    "snapshot": _boolean,
    "server-id": _replica_id,
}


def read_uri(uri: str) -> Settings:
    """The settings in ``mysql://user:password@host:port/?name=value``; raises ``ChangefeedError`` if it is not valid.

    >>> read_uri("mysql://reader:p%40ss@db.example:3307/?snapshot=false").address
    'db.example:3307'
    """
    parts = urlsplit(uri)
    if parts.scheme not in SCHEMES:
        raise ChangefeedError(INVALID, f"a source URI begins with one of {', '.join(SCHEMES)}, not {parts.scheme!r}")
    if not parts.hostname:
        raise ChangefeedError(INVALID, f"the source URI names no host; write {parts.scheme}://user:password@host:3306/")
    if parts.path.strip("/"):
        raise ChangefeedError(
            INVALID,
            f"the source URI names the database {parts.path.strip('/')!r}; remove it: filter rules choose tables",
        )
    given = _parameters(parts)
    _check_tls(given)
    return Settings(
        host=parts.hostname,
        port=_port(parts),
        user=unquote(parts.username) if parts.username else "root",
        password=unquote(parts.password or ""),
        tls=parts.scheme == "mysql+ssl" or "ssl_ca" in given or "ssl_cert" in given,
        **{"server_id": random.randint(2**31, _LARGEST_ID), **given},
    )


def _port(parts: SplitResult) -> int:
    try:
        return parts.port or 3306
    except ValueError:
        raise ChangefeedError(INVALID, "the port in the source URI is a number from 1 to 65535") from None


def _parameters(parts: SplitResult) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        read = _PARAMETERS.get(name)
        if read is None:
            raise ChangefeedError(INVALID, f"the source URI has no {name!r}; known are {', '.join(_PARAMETERS)}")
        given[name.replace("-", "_")] = read(name, text)
    return given


def _check_tls(given: Mapping[str, Any]) -> None:
    if ("ssl_cert" in given) != ("ssl_key" in given):
        raise ChangefeedError(INVALID, "ssl-cert and ssl-key in the source URI belong together; give both or neither")

"""Sink URIs: ``scheme://[user@]host[:port]{,host[:port]}[/path][?key=value{&key=value}]``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import unquote

from tidewire.errors import ChangefeedError
from tidewire.secrets import NO_SECRET, Secret, redacted

__all__ = ["SCHEMES", "SinkKind", "SinkURI", "redacted"]

INVALID = "CDC:ErrSinkURIInvalid"
_DEFAULT_PORT = 9092
_LARGEST_PORT = 65535


class SinkKind(StrEnum):
    """What a scheme leads to."""

    KAFKA = "kafka"
    FILE_TOPIC = "file-topic"
    STORAGE = "storage"
    BLACKHOLE = "blackhole"
    PULSAR = "pulsar"
    DATABASE = "database"

    @property
    def has_topics(self) -> bool:
        """Do messages go to topics here?"""
        return self in (SinkKind.KAFKA, SinkKind.FILE_TOPIC, SinkKind.PULSAR)


SCHEMES: Mapping[str, SinkKind] = {
    "kafka": SinkKind.KAFKA,
    "kafka+ssl": SinkKind.KAFKA,
    "file-topic": SinkKind.FILE_TOPIC,
    "file": SinkKind.STORAGE,
    "s3": SinkKind.STORAGE,
    "gcs": SinkKind.STORAGE,
    "gs": SinkKind.STORAGE,
    "azblob": SinkKind.STORAGE,
    "azure": SinkKind.STORAGE,
    "noop": SinkKind.STORAGE,
    "blackhole": SinkKind.BLACKHOLE,
    "pulsar": SinkKind.PULSAR,
    "pulsar+ssl": SinkKind.PULSAR,
    "pulsar+http": SinkKind.PULSAR,
    "pulsar+https": SinkKind.PULSAR,
    "mysql": SinkKind.DATABASE,
    "mysql+ssl": SinkKind.DATABASE,
    "tidb": SinkKind.DATABASE,
    "tidb+ssl": SinkKind.DATABASE,
}
"""Every scheme of TiCDC, and ours for topics in files."""

BUILT = frozenset({"kafka", "kafka+ssl", "file-topic", "file", "s3", "blackhole"})
"""The schemes that have a sink here."""


@dataclass(frozen=True, slots=True, repr=False)
class SinkURI:
    """A sink URI, taken apart and decoded. Printing it shows no secrets; ``text`` is what was given.

    ``parameters`` are texts as they came; of a name that came twice the first counts, as in TiCDC.
    """

    text: Secret
    scheme: str
    hosts: tuple[str, ...] = ()
    user: str = ""
    password: Secret = NO_SECRET
    path: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> SinkURI:
        """A URI from its text; ``CDC:ErrSinkURIInvalid`` where it is none or its scheme is unknown."""
        scheme, colon, rest = text.strip().partition(":")
        scheme = scheme.lower()
        if not text.strip():
            raise ChangefeedError(INVALID, "sink-uri is empty; give one such as kafka://127.0.0.1:9092/topic")
        if not colon or scheme not in SCHEMES:
            raise _invalid(text, f"its scheme is none of {', '.join(SCHEMES)}")
        rest, _, query = rest.partition("#")[0].partition("?")
        authority, path = _split(rest)
        info, _, hosts = authority.rpartition("@")
        user, _, password = info.partition(":")
        decode = _decoder(text)
        return cls(
            Secret(text),
            scheme,
            _HOSTS[SCHEMES[scheme]](text, decode(hosts)),
            decode(user),
            Secret(decode(password)),
            decode(path),
            _parameters(query, decode),
        )

    def __repr__(self) -> str:
        return f"SinkURI({redacted(self.text)!r})"

    def __str__(self) -> str:
        return redacted(self.text)

    @property
    def kind(self) -> SinkKind:
        """What the URI leads to."""
        return SCHEMES[self.scheme]

    @property
    def topic(self) -> str:
        """The default topic, which may be missing; of topics in files the last part of the path."""
        if self.kind is SinkKind.FILE_TOPIC:
            return self._place.rstrip("/").rpartition("/")[2]
        return self.path.strip("/") if self.kind.has_topics else ""

    @property
    def folder(self) -> str:
        """Where files go: the path, or for topics in files the path without the topic."""
        if self.kind is not SinkKind.FILE_TOPIC:
            return self._place
        folder, slash, _ = self._place.rstrip("/").rpartition("/")
        return folder or slash or "."

    @property
    def _place(self) -> str:
        """The path as a file system has it; a host before it is the first part of a relative one."""
        return "".join(self.hosts) + self.path


def _split(rest: str) -> tuple[str, str]:
    """Authority and path of what follows the scheme's colon."""
    if not rest.startswith("//"):
        return "", rest
    authority, slash, path = rest[2:].partition("/")
    return authority, slash + path


_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def _decoder(text: str) -> Callable[[str], str]:
    def decode(part: str) -> str:
        if _BAD_ESCAPE.search(part):
            raise _invalid(text, "a percent sign must be followed by two hexadecimal digits; write %25 for the sign")
        try:
            return unquote(part, errors="strict")
        except UnicodeDecodeError:
            raise _invalid(text, "its percent-encoded bytes are not UTF-8") from None

    return decode


def _parameters(query: str, decode: Callable[[str], str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for piece in query.split("&"):
        name, _, value = piece.replace("+", "%20").partition("=")
        if name:
            found.setdefault(decode(name), decode(value))
    return found


def _brokers(text: str, authority: str) -> tuple[str, ...]:
    brokers = tuple(_broker(text, part.strip()) for part in authority.split(","))
    if brokers == ("",):
        raise _invalid(text, "it names no broker; write kafka://host:9092/topic")
    if "" in brokers:
        raise _invalid(text, "one of its brokers is empty")
    return brokers


_BRACKETS = re.compile(r"(\[[0-9A-Fa-f:.%a-z]+\]):([0-9]+)")


def _broker(text: str, part: str) -> str:
    if not part:
        return ""
    if part.count(":") > 1:
        bracketed = _BRACKETS.fullmatch(part)
        if bracketed is None:
            raise _invalid(text, "an IPv6 broker is written [address]:port")
        host, port = bracketed.groups()
    else:
        host, _, port = part.partition(":")
    port = port or str(_DEFAULT_PORT)
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) <= _LARGEST_PORT:
        raise _invalid(text, "one of its brokers is no host and port; write user and password percent-encoded")
    return f"{host}:{port}"


def _folder_host(text: str, authority: str) -> tuple[str, ...]:
    return () if authority in ("", "localhost") else (authority,)


def _any_hosts(text: str, authority: str) -> tuple[str, ...]:
    return tuple(part for part in authority.split(",") if part)


_HOSTS: Mapping[SinkKind, Callable[[str, str], tuple[str, ...]]] = {
    **dict.fromkeys(SinkKind, _any_hosts),
    SinkKind.KAFKA: _brokers,
    SinkKind.FILE_TOPIC: _folder_host,
    SinkKind.STORAGE: _folder_host,
}


def _invalid(text: str, reason: str) -> ChangefeedError:
    return ChangefeedError(INVALID, f"sink-uri {redacted(text.strip())}: {reason}")

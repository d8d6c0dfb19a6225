"""Sink URIs: ``scheme://[user@]host[:port]{,host[:port]}[/path][?key=value{&key=value}]``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tidewire.errors import ChangefeedError
from tidewire.kafka.uri import brokers_of, decoded, parameters_of
from tidewire.secrets import NO_SECRET, Secret, redacted

__all__ = ["SCHEMES", "SinkKind", "SinkURI", "redacted"]

INVALID = "CDC:ErrSinkURIInvalid"


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
        """Parse a sink URI; raises ``CDC:ErrSinkURIInvalid`` if it is not valid or its scheme is unknown."""
        scheme, colon, rest = text.strip().partition(":")
        scheme = scheme.lower()
        if not text.strip():
            raise ChangefeedError(INVALID, "sink-uri is empty; give one such as kafka://127.0.0.1:9092/topic")
        if not colon or scheme not in SCHEMES:
            raise _invalid(text, f"its scheme is not one of {', '.join(SCHEMES)}")
        rest, _, query = rest.partition("#")[0].partition("?")
        authority, path = _split(rest)
        info, _, hosts = authority.rpartition("@")
        user, _, password = info.partition(":")
        try:
            return cls(
                Secret(text),
                scheme,
                _HOSTS[SCHEMES[scheme]](decoded(hosts)),
                decoded(user),
                Secret(decoded(password)),
                decoded(path),
                parameters_of(query),
            )
        except ValueError as error:
            raise _invalid(text, str(error)) from None

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


def _folder_host(authority: str) -> tuple[str, ...]:
    return () if authority in ("", "localhost") else (authority,)


def _any_hosts(authority: str) -> tuple[str, ...]:
    return tuple(part for part in authority.split(",") if part)


_HOSTS: Mapping[SinkKind, Callable[[str], tuple[str, ...]]] = {
    **dict.fromkeys(SinkKind, _any_hosts),
    SinkKind.KAFKA: brokers_of,
    SinkKind.FILE_TOPIC: _folder_host,
    SinkKind.STORAGE: _folder_host,
}


def _invalid(text: str, reason: str) -> ChangefeedError:
    return ChangefeedError(INVALID, f"sink-uri {redacted(text.strip())}: {reason}")

"""Sink URIs: ``scheme://[user@]host[:port]{,host[:port]}[/path][?key=value{&key=value}]``.

Their scheme decides about the kind of sink, and the kind about the protocols it can write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tidewire.codec import PROTOCOLS
from tidewire.errors import ChangefeedError
from tidewire.kafka.uri import brokers_of, decoded, parameters_of
from tidewire.secrets import NO_SECRET, Secret, redacted

URI_INVALID = "CDC:ErrSinkURIInvalid"
UNKNOWN_PROTOCOL = "CDC:ErrSinkUnknownProtocol"

_PROTOCOL_ALIASES: Mapping[str, str] = {"default": "open-protocol", "flat-avro": "avro"}

KNOWN_PROTOCOLS = frozenset({*PROTOCOLS, "csv", "canal", "maxwell", "debezium", "debezium-avro"})
"""Every protocol name of TiCDC."""


class SinkKind(StrEnum):
    """The kind of sink behind a scheme."""

    KAFKA = "kafka"
    FILE_TOPIC = "file-topic"
    STORAGE = "storage"
    BLACKHOLE = "blackhole"
    PULSAR = "pulsar"
    DATABASE = "database"

    @property
    def has_topics(self) -> bool:
        """Do messages go to topics?"""
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
"""Every scheme of TiCDC, and ``file-topic`` for topics in files."""

BUILT = frozenset({"kafka", "kafka+ssl", "file-topic", "file", "s3", "blackhole"})
"""The schemes for which tidewire has a sink."""


@dataclass(frozen=True, slots=True, repr=False)
class SinkURI:
    """A sink URI, taken apart and decoded. Printing it shows no secrets; ``text`` is what was given.

    ``parameters`` are texts as given; if a name is given twice, the first counts, as in TiCDC.
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
            raise ChangefeedError(URI_INVALID, "sink-uri is empty; give one such as kafka://127.0.0.1:9092/topic")
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
        """The kind of sink."""
        return SCHEMES[self.scheme]

    @property
    def topic(self) -> str:
        """The default topic: the last part of the path for topics in files, empty if the URI names no topic."""
        if self.kind is SinkKind.FILE_TOPIC:
            return self._file_path.rstrip("/").rpartition("/")[2]
        return self.path.strip("/") if self.kind.has_topics else ""

    @property
    def folder(self) -> str:
        """Where files go: the path, or for topics in files the path without the topic."""
        if self.kind is not SinkKind.FILE_TOPIC:
            return self._file_path
        folder, slash, _ = self._file_path.rstrip("/").rpartition("/")
        return folder or slash or "."

    @property
    def _file_path(self) -> str:
        """The path in the file system; a host before it is the first part of a relative path."""
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
    return ChangefeedError(URI_INVALID, f"sink-uri {redacted(text.strip())}: {reason}")


PROTOCOLS_OF: Mapping[SinkKind, frozenset[str]] = {
    SinkKind.KAFKA: frozenset(PROTOCOLS),
    SinkKind.FILE_TOPIC: frozenset(PROTOCOLS),
    SinkKind.STORAGE: frozenset({"csv", "canal-json"}),
}
"""The protocols that a sink can write; a blackhole takes any."""


def protocol_name(text: str | None) -> str:
    """The plain name of a protocol, in lower case and without aliases; an unknown name is returned unchanged."""
    name = (text or "").lower()
    name = _PROTOCOL_ALIASES.get(name, name)
    return name if name in KNOWN_PROTOCOLS else text or ""

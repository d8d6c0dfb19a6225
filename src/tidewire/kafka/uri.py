"""Where topics of a Kafka cluster are, and how to reach it: what a URI says.

``kafka://host[:port][,host[:port]]/topic[,topic][?name=value&…]``; ``?pattern=REGEX`` in place of topics takes every
topic that matches, also those that are created later. Parameters for TLS and SASL have TiCDC's names, and the sink
URI of a changefeed is accepted as it is: what concerns only its producer is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final
from urllib.parse import unquote

from tidewire.codec import Options
from tidewire.errors import OptionError, known_names
from tidewire.kafka.settings import SECURITY, Security, carried

SCHEMES: Final = ("kafka://", "kafka+ssl://")
"""As in TiCDC, the second one does not turn TLS on by itself."""

MESSAGES_PER_PASS: Final = 1_000_000
"""How many messages a pass reads if the URI does not say it: a backlog becomes tables in pieces."""

_DEFAULT_PORT: Final = 9092
_LARGEST_PORT: Final = 65535
_PATTERNS: Final = ("pattern", "subscribePattern")
_OWN: Final = ("consumer-group", "max-offsets-per-batch", "kafka-client-id")
_SIZES: Final = frozenset({"max-message-bytes", "max-batch-size", "max-batched-bytes"})
_ELSEWHERE: Final = frozenset({"topic", "namespace", "time-zone"})
_CODEC: Final = frozenset(option.name.replace("_", "-") for option in fields(Options)) - _SIZES - _ELSEWHERE
_PRODUCER: Final = _SIZES | frozenset(
    {"protocol", "partition-num", "replication-factor", "kafka-version", "compression", "auto-create-topic"}
    | {"required-acks", "max-retry", "dial-timeout", "read-timeout", "write-timeout", "transaction-atomicity"}
)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_BRACKETS: Final = re.compile(r"(\[[0-9A-Fa-f:.%a-z]+\]):([0-9]+)")


def brokers_of(authority: str) -> tuple[str, ...]:
    """The brokers of a URI, each with its port. Raises :class:`ValueError` with what is wrong."""
    brokers = tuple(_broker(part.strip()) for part in authority.split(","))
    if brokers == ("",):
        raise ValueError("it names no broker; write kafka://host:9092/topic")
    if "" in brokers:
        raise ValueError("one of its brokers is empty")
    return brokers


def decoded(text: str) -> str:
    """A percent-encoded part of a URI as plain text. Raises :class:`ValueError` with what is wrong."""
    if _BAD_ESCAPE.search(text):
        raise ValueError("a percent sign must be followed by two hexadecimal digits; write %25 for the sign")
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("its percent-encoded bytes are not UTF-8") from None


def parameters_of(query: str) -> dict[str, str]:
    """The parameters of a URI as texts. If a name occurs twice, the first one counts, as in TiCDC."""
    found: dict[str, str] = {}
    for piece in query.split("&"):
        name, _, value = piece.replace("+", "%20").partition("=")
        if name:
            found.setdefault(decoded(name), decoded(value))
    return found


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """Brokers, topics, and how to reach them.

    ``settings`` are librdkafka's. They hold certificates and keys themselves and not the paths of files, so that
    executors on other machines need none. ``options`` are the codec options a sink URI carries.
    """

    brokers: tuple[str, ...]
    topics: tuple[str, ...]
    pattern: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    group: str | None = None
    max_messages: int = MESSAGES_PER_PASS
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        """The URI without credentials, for messages to people."""
        return f"kafka://{','.join(self.brokers)}/{self._chosen(self.topics)}"

    @property
    def identity(self) -> str:
        """Which topics these are, whatever brokers lead to them."""
        return f"kafka:///{self._chosen(tuple(sorted(self.topics)))}"

    def _chosen(self, topics: tuple[str, ...]) -> str:
        return ",".join(topics) + (f"?pattern={self.pattern}" if self.pattern else "")

    @classmethod
    def parse(cls, uri: str) -> KafkaAddress:
        """The address in a URI. Raises :class:`OptionError` if it is not one."""
        rest, _, query = uri.partition("://")[2].partition("#")[0].partition("?")
        authority, _, path = rest.partition("/")
        try:
            if "@" in authority:
                raise ValueError(
                    "user and password cannot be given before the brokers; use sasl-user and sasl-password"
                )
            brokers = brokers_of(authority)
            topics = tuple(decoded(topic) for topic in path.strip("/").split(",") if topic)
            given = parameters_of(query)
        except ValueError as error:
            raise OptionError("source", f"the Kafka URI cannot be read: {error}") from None
        pattern = next((given[name] for name in _PATTERNS if given.get(name)), None)
        _check(given, topics, pattern)
        client = {"client.id": given["kafka-client-id"]} if given.get("kafka-client-id") else {}
        return cls(
            brokers,
            topics,
            pattern,
            carried(Security.parse(given).settings(brokers)) | client,
            given.get("consumer-group") or None,
            _positive(given, "max-offsets-per-batch", MESSAGES_PER_PASS),
            {name: value for name, value in given.items() if name in _CODEC},
        )


def _broker(part: str) -> str:
    if not part:
        return ""
    if part.count(":") > 1:
        bracketed = _BRACKETS.fullmatch(part)
        if bracketed is None:
            raise ValueError("an IPv6 broker is written [address]:port")
        host, port = bracketed.groups()
    else:
        host, _, port = part.partition(":")
    port = port or str(_DEFAULT_PORT)
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) <= _LARGEST_PORT:
        raise ValueError("one of its brokers is not a host and port; write user and password percent-encoded")
    return f"{host}:{port}"


def _check(given: Mapping[str, str], topics: tuple[str, ...], pattern: str | None) -> None:
    unknown = sorted(given.keys() - {*_PATTERNS, *_OWN} - SECURITY - _CODEC - _PRODUCER)
    if unknown:
        advice = known_names(unknown[0], {_PATTERNS[0], *_OWN} | SECURITY)
        raise OptionError(unknown[0], f"a Kafka source has no such option; {advice}")
    if bool(topics) == bool(pattern):
        raise OptionError(
            "source", "name a topic after the brokers, kafka://host:port/topic, or give ?pattern=, and not both"
        )
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise OptionError(_PATTERNS[0], f"{pattern!r} is not a regular expression: {error}") from None


def _positive(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and int(text)):
        raise OptionError(name, f"{text!r} is not a number above zero")
    return int(text)

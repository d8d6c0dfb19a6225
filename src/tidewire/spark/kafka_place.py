"""Where topics of a Kafka cluster are, and how to talk to it: what a source's URI says.

``kafka://host:port[,host:port]/topic[,topic][?name=value&…]``; ``?pattern=REGEX`` in place of topics takes every topic
that matches, also those that are made later. Options for TLS and SASL have TiCDC's names, and a changefeed's sink URI
is accepted as it is: what concerns only its producer is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from tidewire.codec import Options
from tidewire.errors import OptionError

SCHEMES = ("kafka://", "kafka+ssl://")
"""As in TiCDC, the second one does not turn TLS on by itself."""

MESSAGES_PER_BATCH = 1_000_000
"""How many messages a batch takes where nobody says it: a backlog becomes tables in pieces."""

_PATTERNS = ("pattern", "subscribePattern")
_OWN = ("consumer-group", "max-offsets-per-batch")
_MECHANISMS: Mapping[str, tuple[str, str]] = {
    "plain": ("PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule"),
    "scram-sha-256": ("SCRAM-SHA-256", "org.apache.kafka.common.security.scram.ScramLoginModule"),
    "scram-sha-512": ("SCRAM-SHA-512", "org.apache.kafka.common.security.scram.ScramLoginModule"),
}
_CLIENT = frozenset(
    {"enable-tls", "ca", "cert", "key", "insecure-skip-verify"}
    | {"sasl-user", "sasl-password", "sasl-mechanism", "kafka-client-id"}
)
_SIZES = frozenset({"max-message-bytes", "max-batch-size", "max-batched-bytes"})
_ELSEWHERE = frozenset({"topic", "namespace", "time-zone"})
_CODEC = frozenset(option.name.replace("_", "-") for option in fields(Options)) - _SIZES - _ELSEWHERE
_PRODUCER = _SIZES | frozenset(
    {"protocol", "partition-num", "replication-factor", "kafka-version", "compression", "auto-create-topic"}
    | {"required-acks", "max-retry", "dial-timeout", "read-timeout", "write-timeout", "transaction-atomicity"}
)
_BROKER = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\[\]:/@\s]+):([0-9]{1,5})")
_BOOLS = {**dict.fromkeys(("1", "t", "true"), True), **dict.fromkeys(("0", "f", "false"), False)}
_PKCS8 = "-----BEGIN PRIVATE KEY-----"


@dataclass(frozen=True, slots=True)
class KafkaPlace:
    """Brokers, topics, and how to talk to them.

    ``client`` are settings of Kafka's Java client, ``native`` those of librdkafka. They hold certificates and keys
    themselves and not the names of files, so that executors on other machines need none. ``trust_any``: a broker's
    certificate may be from anybody. ``options`` are the codec options a sink URI carries.
    """

    brokers: str
    topics: tuple[str, ...]
    pattern: str | None = None
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    native: Mapping[str, str] = field(default_factory=dict, repr=False)
    trust_any: bool = False
    group: str | None = None
    offsets_per_batch: int = MESSAGES_PER_BATCH
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        """What it is called, without anything secret."""
        return f"kafka://{self.brokers}/{','.join(self.topics)}" + (f"?pattern={self.pattern}" if self.pattern else "")

    @classmethod
    def parse(cls, uri: str) -> KafkaPlace:
        """The place a URI names; :class:`OptionError` where it names none."""
        rest, _, query = uri.partition("://")[2].partition("?")
        brokers, _, path = rest.partition("/")
        for broker in brokers.split(","):
            if not _BROKER.fullmatch(broker):
                raise OptionError("source", f"{broker!r} is no broker: kafka://host:port[,host:port]/topic")
        topics = tuple(unquote(topic) for topic in path.strip("/").split(",") if topic)
        given = dict(parse_qsl(query, keep_blank_values=True))
        pattern = next((given[name] for name in _PATTERNS if name in given), None)
        _check_names(given, topics, pattern)
        client, native = _clients(given)
        return cls(
            brokers,
            topics,
            pattern,
            client,
            {**native, "bootstrap.servers": brokers},
            client["security.protocol"].endswith("SSL") and _bool(given, "insecure-skip-verify"),
            given.get("consumer-group"),
            _positive(given, "max-offsets-per-batch", MESSAGES_PER_BATCH),
            {name: value for name, value in given.items() if name in _CODEC},
        )


def _check_names(given: Mapping[str, str], topics: tuple[str, ...], pattern: str | None) -> None:
    unknown = sorted(given.keys() - {*_PATTERNS, *_OWN} - _CLIENT - _CODEC - _PRODUCER)
    if unknown:
        known = sorted({_PATTERNS[0], *_OWN} | _CLIENT)
        raise OptionError(unknown[0], f"no option of a Kafka source; known are {', '.join(known)}")
    if bool(topics) == bool(pattern):
        raise OptionError("source", "give either topics after the brokers or ?pattern=, and not both")
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise OptionError(_PATTERNS[0], f"{pattern!r} is no regular expression: {error}") from None


def _positive(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and int(text)):
        raise OptionError(name, f"{text!r} is not a number above zero")
    return int(text)


def _bool(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "false")
    if text.lower() not in _BOOLS:
        raise OptionError(name, f"{text!r} is neither true nor false")
    return _BOOLS[text.lower()]


def _credentials(given: Mapping[str, str]) -> dict[str, str] | None:
    """The contents of the files for TLS; ``None`` where there is no TLS. Files turn it on by themselves."""
    paths = {name: given[name] for name in ("ca", "cert", "key") if given.get(name)}
    if "enable-tls" in given and not _bool(given, "enable-tls") and paths:
        raise OptionError("enable-tls", f"it is false, and yet {', '.join(paths)} are given")
    if not _bool(given, "enable-tls") and not paths:
        return None
    if ("cert" in paths) != ("key" in paths):
        raise OptionError("cert", "a certificate and its key go together")
    found = {name: _text(name, path) for name, path in paths.items()}
    if _PKCS8 not in found.get("key", _PKCS8):
        raise OptionError("key", "Java reads keys in PKCS#8 only: openssl pkcs8 -topk8 -nocrypt -in KEY -out NEW")
    return found


def _text(name: str, path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(name, f"{path} cannot be read as PEM: {error}") from error


def _sasl(given: Mapping[str, str]) -> tuple[str, str, str, str] | None:
    """Mechanism, Java's module for it, user and password."""
    user, wanted = given.get("sasl-user"), given.get("sasl-mechanism")
    if not user:
        if wanted:
            raise OptionError("sasl-user", f"sasl-mechanism {wanted} needs a user")
        return None
    found = _MECHANISMS.get((wanted or "plain").lower())
    if found is None:
        raise OptionError("sasl-mechanism", f"{wanted!r} is none of {', '.join(_MECHANISMS)}")
    return *found, user, given.get("sasl-password", "")


def _clients(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The settings of Kafka's Java client and of librdkafka for TiCDC's options."""
    sasl, files = _sasl(given), _credentials(given)
    shared = {"security.protocol": ("SASL_" if sasl else "") + ("PLAINTEXT" if files is None else "SSL")}
    if given.get("kafka-client-id"):
        shared["client.id"] = given["kafka-client-id"]
    java, native = dict(shared), dict(shared)
    if sasl is not None:
        mechanism, module, user, password = sasl
        login = f"{module} required username={_quoted(user)} password={_quoted(password)};"
        java |= {"sasl.mechanism": mechanism, "sasl.jaas.config": login}
        native |= {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
    if files is not None and _bool(given, "insecure-skip-verify"):
        java |= {"ssl.endpoint.identification.algorithm": ""}
        native |= {"enable.ssl.certificate.verification": "false"}
    for name, text in (files or {}).items():
        java |= _JAVA[name](text)
        native[_NATIVE[name]] = text
    return java, native


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def trusting(certificates: str) -> dict[str, str]:
    """The client's settings to trust these certificates, in PEM."""
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": certificates}


_JAVA: Mapping[str, Callable[[str], dict[str, str]]] = {
    "ca": trusting,
    "cert": lambda text: {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": text},
    "key": lambda text: {"ssl.keystore.key": text},
}
_NATIVE = {"ca": "ssl.ca.pem", "cert": "ssl.certificate.pem", "key": "ssl.key.pem"}

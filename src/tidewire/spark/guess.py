"""What the first messages tell of how a topic was written, where nobody said it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidewire.codec import Options, protocol
from tidewire.errors import DecodeError, OptionError
from tidewire.model import Bootstrap, Message

EXTENSION = "enable-tidb-extension"
ENCODING = "encoding-format"


def completed(name: str, options: Mapping[str, str], sample: Iterable[Message]) -> dict[str, str]:
    """The options, with those added that the messages themselves tell: Canal-JSON's extension, Simple's encoding."""
    guess = _GUESSES.get(name)
    return dict(options) if guess is None else guess(dict(options), list(sample))


def gated(name: str, options: Mapping[str, str]) -> bool:
    """Do the messages carry commit ts and watermarks?"""
    parsed = Options.parse(options)
    if name == "avro":
        return parsed.avro_enable_watermark
    return name != "canal-json" or parsed.enable_tidb_extension


def _canal_json(options: dict[str, str], sample: list[Message]) -> dict[str, str]:
    if EXTENSION in options:
        return options
    decoder = protocol("canal-json").Decoder(Options.parse(options))
    for message in sample:
        try:
            events = [event for event in decoder.decode(message) if not isinstance(event, Bootstrap)]
        except (DecodeError, OSError, OptionError):
            continue
        if events:
            dated = all(getattr(event, "commit_ts", getattr(event, "ts", None)) is not None for event in events)
            return options | {EXTENSION: str(dated).lower()}
    return options | {EXTENSION: "true"}


def _simple(options: dict[str, str], sample: list[Message]) -> dict[str, str]:
    if ENCODING in options or "large-message-handle-compression" in options:
        return options
    first = next((message.value for message in sample if message.value), b"{")
    return options | {ENCODING: "json" if first.lstrip().startswith(b"{") else "avro"}


_GUESSES = {"canal-json": _canal_json, "simple": _simple}

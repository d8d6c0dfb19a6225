"""What the first messages of a topic tell about how it was written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tidewire.codec import PROTOCOLS, Options, protocol
from tidewire.errors import DecodeError, OptionError, SchemaUnknown, TidewireError
from tidewire.model import Bootstrap, Message

EXTENSION = "enable-tidb-extension"
ENCODING = "encoding-format"
COMPRESSION = "large-message-handle-compression"
REGISTRY = "schema-registry"

_VARIANTS: Sequence[Mapping[str, str]] = (
    {},
    {ENCODING: "json"},
    {ENCODING: "avro"},
    {COMPRESSION: "none"},
    {COMPRESSION: "lz4"},
    {COMPRESSION: "snappy"},
)
"""Options that decide whether messages can be read at all."""

_CONFLUENT_HEADER = 5
_BYTES_SHOWN = 24


def completed(name: str, options: Mapping[str, str], sample: Iterable[Message]) -> dict[str, str]:
    """The options, with those added that the messages themselves tell: Canal-JSON's extension, Simple's encoding."""
    guess = _GUESSES.get(name)
    return dict(options) if guess is None else guess(dict(options), list(sample))


def has_watermarks(name: str, options: Mapping[str, str]) -> bool:
    """Whether messages carry commit ts and watermarks."""
    parsed = Options.parse(options)
    if name == "avro":
        return parsed.avro_enable_watermark
    return name != "canal-json" or parsed.enable_tidb_extension


def check_readable(name: str, options: Mapping[str, str], sample: Iterable[Message]) -> None:
    """Raise :class:`OptionError` if a protocol reads none of the first messages, and say which one does.

    No messages, and bad messages among good ones, are no reason to refuse. A schema registry or claim-check store that
    does not answer raises its own error.
    """
    if name == "avro" and not options.get(REGISTRY):
        raise OptionError(
            REGISTRY,
            "Avro messages hold only the number of their schema; give option schema-registry, their registry's URL",
        )
    messages = [message for message in sample if message.value]
    problem: TidewireError | None = None
    for found in _problems(name, options, messages):
        if found is None:
            return
        problem = problem or found
    if isinstance(problem, OptionError):
        raise problem
    if problem is not None:
        what = (
            f"none of the first {len(messages)} messages reads"
            if len(messages) > 1
            else "the first message does not read"
        )
        raise OptionError("protocol", f"{what} as {name} ({problem}); {_advice(name, options, messages)}")


def _problems(name: str, options: Mapping[str, str], messages: Iterable[Message]) -> Iterator[TidewireError | None]:
    """What is wrong with each message; ``None`` for a message that can be read."""
    from tidewire.spark.decoding import resources_of

    parsed = Options.parse(options)
    decoder = protocol(name).Decoder(parsed, resources_of(parsed))
    for message in messages:
        try:
            for _ in decoder.decode(message):
                pass
        except SchemaUnknown:
            yield None
        except (DecodeError, OptionError) as error:
            yield error
        else:
            yield None


def _advice(name: str, options: Mapping[str, str], messages: Sequence[Message]) -> str:
    """What the messages look like, and the option to give."""
    for other in sorted(PROTOCOLS, key=lambda other: other != name):
        for variant in _VARIANTS:
            if _reads_all(other, {**options, **variant}, messages):
                flags = [*([f"--protocol {other}"] if other != name else []), *_flags(options, variant)]
                return f"they read as {' with '.join([other, *_words(options, variant)])}: give {' '.join(flags)}"
    if all(
        (message.value or b"")[:1] == b"\0" and len(message.value or b"") > _CONFLUENT_HEADER for message in messages
    ):
        return "they look like Avro: give --protocol avro and --option schema-registry=URL"
    first = (messages[0].value or b"")[:_BYTES_SHOWN]
    return f"no protocol reads them, so check that the topic is the changefeed's; the first value begins with {first!r}"


def _reads_all(name: str, options: Mapping[str, str], messages: Sequence[Message]) -> bool:
    if name == "avro" and not options.get(REGISTRY):
        return False
    try:
        return all(problem is None for problem in _problems(name, completed(name, options, messages), messages))
    except (TidewireError, OSError):  # it is only an attempt
        return False


def _flags(options: Mapping[str, str], variant: Mapping[str, str]) -> list[str]:
    return [f"--option {word}" for word in _words(options, variant)]


def _words(options: Mapping[str, str], variant: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in variant.items() if options.get(name) != value]


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
    if ENCODING in options or options.get(COMPRESSION, "none") != "none":
        return options
    first = next((message.value for message in sample if message.value), b"{")
    return options | {ENCODING: "json" if first.lstrip().startswith(b"{") else "avro"}


_GUESSES = {"canal-json": _canal_json, "simple": _simple}

"""Codec options, under TiCDC's own names.

One list for all protocols, as in TiCDC: the same word means the same thing everywhere, and a protocol leaves aside
what does not concern it. In Python the names have underscores: ``enable-tidb-extension`` is ``enable_tidb_extension``.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Literal, TypedDict

from tidewire.errors import OptionError, known_names


class Compression(StrEnum):
    """``large-message-handle-compression``: how every value is packed."""

    NONE = "none"
    SNAPPY = "snappy"
    LZ4 = "lz4"


class LargeMessage(StrEnum):
    """``large-message-handle-option``: what happens to a row above the size limit."""

    NONE = "none"
    HANDLE_KEY_ONLY = "handle-key-only"
    CLAIM_CHECK = "claim-check"


class EncodingFormat(StrEnum):
    """``encoding-format``: Simple's two encodings."""

    JSON = "json"
    AVRO = "avro"


class DecimalMode(StrEnum):
    """``avro-decimal-handling-mode``."""

    PRECISE = "precise"
    STRING = "string"


class UnsignedBigintMode(StrEnum):
    """``avro-bigint-unsigned-handling-mode``."""

    LONG = "long"
    STRING = "string"


class IntegrityCheck(StrEnum):
    """``integrity-check-level``: are row checksums sent and verified?"""

    NONE = "none"
    CORRECTNESS = "correctness"


class CorruptionHandling(StrEnum):
    """``corruption-handle-level``: is a row whose checksum is wrong refused, or passed on and marked?"""

    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Options:
    """What a codec can be told.

    The constructor takes words for the enumerations, and text for numbers and booleans, as :meth:`parse` does:
    ``Options(avro_decimal_handling_mode="string")``. It raises ``OptionError`` for a value that an option cannot have.
    """

    max_message_bytes: int = 10 * 1024 * 1024
    """The largest message, and the largest batch unless ``max_batched_bytes`` says otherwise."""
    max_batched_bytes: int | None = None
    """The size above which no further event joins a message; newer servers tell it apart from the former."""
    max_batch_size: int = 16
    enable_tidb_extension: bool = False
    output_old_value: bool = True
    only_output_updated_columns: bool = False
    delete_only_output_handle_key_columns: bool = False
    content_compatible: bool = False
    output_row_key: bool = False
    large_message_handle_option: LargeMessage = LargeMessage.NONE
    large_message_handle_compression: Compression = Compression.NONE
    claim_check_storage_uri: str = ""
    claim_check_raw_value: bool = False
    encoding_format: EncodingFormat = EncodingFormat.JSON
    avro_decimal_handling_mode: DecimalMode = DecimalMode.PRECISE
    avro_bigint_unsigned_handling_mode: UnsignedBigintMode = UnsignedBigintMode.LONG
    avro_enable_watermark: bool = False
    avro_include_before_value: bool = False
    schema_registry: str = ""
    namespace: str = "default"
    """The changefeed's namespace (keyspace): the first part of an Avro record's namespace."""
    topic: str = ""
    """Where the messages go; Avro names its subjects after it."""
    integrity_check_level: IntegrityCheck = IntegrityCheck.NONE
    corruption_handle_level: CorruptionHandling = CorruptionHandling.WARN
    time_zone: str = "UTC"
    """The TiCDC server's zone, in which TIMESTAMP values are."""
    force_replicate: bool = False
    output_raw_change_event: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> Options:
        """Options from TiCDC's names and from text values, as a URI or a file has them."""
        known = {}
        for name, value in options.items():
            attribute = _ATTRIBUTES.get(_ALIASES.get(name, name))
            if attribute is None:
                raise OptionError(name, f"there is no such option; {known_names(name, _ATTRIBUTES)}")
            known[attribute] = _checked(name, attribute, value)
        return cls(**known)

    def __post_init__(self) -> None:
        for name in _PARSERS:
            object.__setattr__(self, name, _checked(name.replace("_", "-"), name, getattr(self, name)))

    @property
    def batch_limit(self) -> int:
        """The size above which no further event joins a message."""
        return self.max_message_bytes if self.max_batched_bytes is None else self.max_batched_bytes

    @property
    def only_updated(self) -> bool:
        """Are old values of unchanged columns left out? ``content-compatible`` implies it."""
        return self.only_output_updated_columns or self.content_compatible


class OptionWords(TypedDict, total=False):
    """The attributes of :class:`Options` as keyword arguments, with the words that enumerations take too."""

    max_message_bytes: int
    max_batched_bytes: int | None
    max_batch_size: int
    enable_tidb_extension: bool
    output_old_value: bool
    only_output_updated_columns: bool
    delete_only_output_handle_key_columns: bool
    content_compatible: bool
    output_row_key: bool
    large_message_handle_option: LargeMessage | Literal["none", "handle-key-only", "claim-check"]
    large_message_handle_compression: Compression | Literal["none", "snappy", "lz4"]
    claim_check_storage_uri: str
    claim_check_raw_value: bool
    encoding_format: EncodingFormat | Literal["json", "avro"]
    avro_decimal_handling_mode: DecimalMode | Literal["precise", "string"]
    avro_bigint_unsigned_handling_mode: UnsignedBigintMode | Literal["long", "string"]
    avro_enable_watermark: bool
    avro_include_before_value: bool
    schema_registry: str
    namespace: str
    topic: str
    integrity_check_level: IntegrityCheck | Literal["none", "correctness"]
    corruption_handle_level: CorruptionHandling | Literal["warn", "error"]
    time_zone: str
    force_replicate: bool
    output_raw_change_event: bool


def options_of(words: OptionWords) -> Options:
    """Options from keyword arguments."""
    given: Mapping[str, Any] = words
    unknown = given.keys() - _PARSERS.keys()
    if unknown:
        raise OptionError(min(unknown), f"there is no such option; {known_names(min(unknown), _PARSERS)}")
    return Options(**given)


def flag(value: Any) -> bool:
    """A boolean or the word for one; ``ValueError`` for anything else."""
    words = {"true": True, "1": True, "false": False, "0": False}
    word = str(value).lower()
    if word not in words:
        raise ValueError(f"must be true or false, not {value!r}")
    return words[word]


def _int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"must be a whole number, not {value!r}")
    return int(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be text, not {value!r}")
    return value


def _choice(kind: type[StrEnum]) -> Callable[[Any], StrEnum]:
    def parse(value: Any) -> StrEnum:
        try:
            return kind(value)
        except ValueError:
            raise ValueError(f"must be one of {', '.join(kind)}, not {value!r}") from None

    return parse


def _size(value: Any) -> int:
    size = _int(value)
    if size <= 0:
        raise ValueError(f"must be greater than 0, not {size}")
    return size


def _size_or_none(value: Any) -> int | None:
    return None if value is None else _size(value)


def _parser(hint: Any) -> Callable[[Any], Any]:
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _choice(hint)
    return _READERS[hint]


def _checked(name: str, attribute: str, value: Any) -> Any:
    """The value of an attribute, from the word for it too; ``name`` is what the caller calls the option."""
    try:
        return _PARSERS[attribute](value)
    except ValueError as error:
        raise OptionError(name, str(error)) from None


_READERS: Mapping[Any, Callable[[Any], Any]] = {bool: flag, str: _text, int: _size, int | None: _size_or_none}
_PARSERS: Mapping[str, Callable[[Any], Any]] = {
    name: _parser(hint) for name, hint in typing.get_type_hints(Options).items()
}
_ATTRIBUTES: Mapping[str, str] = {field.name.replace("_", "-"): field.name for field in fields(Options)}
_ALIASES: Mapping[str, str] = {"open.output-old-value": "output-old-value"}

"""How the text files of a dump are written. Nothing in a dump records it, so each is an option with Dumpling's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from tidewire.errors import OptionError


class BinaryFormat(StrEnum):
    """How byte strings are written in CSV files."""

    RAW = "raw"
    HEX = "hex"
    BASE64 = "base64"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the values of a dump are written; the defaults are Dumpling's.

    ``time_zone`` is the time zone of Dumpling's session: TIMESTAMPs are written in it.
    """

    separator: bytes = b","
    delimiter: bytes = b'"'
    null: bytes = b"\\N"
    line_end: bytes = b"\r\n"
    header: bool = True
    escape_backslash: bool = True
    binary: BinaryFormat = BinaryFormat.RAW
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        for name, value in (("csv-separator", self.separator), ("csv-line-terminator", self.line_end)):
            if not value:
                raise OptionError(name, "it must not be empty")
        if self.delimiter and self.delimiter in (self.separator, self.line_end):
            raise OptionError("csv-delimiter", "it must differ from the separator and from the end of lines")

    @property
    def lines_are_rows(self) -> bool:
        """Is each line of a CSV file a row? Without escaping, values may have line breaks."""
        return self.escape_backslash and self.line_end in (b"\r\n", b"\n")

    @property
    def escaped(self) -> bytes:
        """The byte, besides control characters and the backslash, that is written with a backslash before it."""
        return (self.delimiter or self.separator)[:1]

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Dialect:
        """The dialect that options of Dumpling make; :class:`OptionError` for another option.

        >>> Dialect.parse({"csv-separator": "|", "no-header": "true"}).separator
        b'|'
        """
        found: dict[str, Any] = {}
        for name, text in options.items():
            if name not in _OPTIONS:
                raise OptionError(name, f"a load has no such option; it has {', '.join(_OPTIONS)}")
            member, read = _OPTIONS[name]
            found[member] = read(name, text)
        return cls(**found)


def _text(_: str, text: str) -> bytes:
    return text.replace("\\r", "\r").replace("\\n", "\n").replace("\\t", "\t").encode()


def _verbatim(_: str, text: str) -> bytes:
    return text.encode()


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise OptionError(name, f"{text!r} is neither true nor false")
    return text.lower() in ("true", "1")


_BINARY: Final[Mapping[str, BinaryFormat]] = {
    "default": BinaryFormat.RAW,
    "snowflake": BinaryFormat.HEX,
    "redshift": BinaryFormat.HEX,
    "bigquery": BinaryFormat.BASE64,
}


def _binary(name: str, text: str) -> BinaryFormat:
    if text.lower() not in _BINARY:
        raise OptionError(name, f"{text!r} is not one of {', '.join(_BINARY)}")
    return _BINARY[text.lower()]


_OPTIONS: Final[Mapping[str, tuple[str, Callable[[str, str], object]]]] = {
    "csv-separator": ("separator", _text),
    "csv-delimiter": ("delimiter", _text),
    "csv-null-value": ("null", _verbatim),
    "csv-line-terminator": ("line_end", _text),
    "no-header": ("header", lambda name, text: not _flag(name, text)),
    "escape-backslash": ("escape_backslash", _flag),
    "csv-output-dialect": ("binary", _binary),
    "time-zone": ("time_zone", lambda _, text: text),
}

"""How CSV records are written: ``[sink.csv]`` of a changefeed, and the options of a sync that reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from tidewire.codec.options import flag
from tidewire.errors import OptionError

DEFAULT_TERMINATOR: Final = "\r\n"
"""What ends a record unless a changefeed says otherwise."""

BINARY_METHODS: Final = ("base64", "hex")
_MOST_DELIMITER_BYTES: Final = 3


@dataclass(frozen=True, slots=True)
class CsvConfig:
    """``[sink.csv]``."""

    delimiter: str = ","
    quote: str = '"'
    null: str = "\\N"
    include_commit_ts: bool = False
    binary_encoding_method: str = "base64"
    output_old_value: bool = False
    output_handle_key: bool = False
    output_field_header: bool = False

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """The settings that cannot be, each with the reason."""
        if len(self.quote.encode()) > 1:
            yield "quote", f"is one character or none, not {self.quote!r}"
        elif self.quote in ("\r", "\n"):
            yield "quote", "cannot be a line break"
        if not 1 <= len(self.delimiter.encode()) <= _MOST_DELIMITER_BYTES:
            yield "delimiter", f"is one to three bytes, not {self.delimiter!r}"
        elif set(self.delimiter) & set("\r\n"):
            yield "delimiter", "cannot hold a line break"
        if set(self.delimiter) & set(self.quote):
            yield "delimiter", "must not share characters with the quote"
        if self.binary_encoding_method not in BINARY_METHODS:
            methods = " or ".join(BINARY_METHODS)
            yield "binary-encoding-method", f"is {methods}, not {self.binary_encoding_method!r}"

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> CsvConfig:
        """The settings in options with TiCDC's names; ``OptionError`` for a value that one cannot have.

        >>> CsvConfig.parse({"delimiter": "|", "include-commit-ts": "true"}).include_commit_ts
        True
        """
        found: dict[str, Any] = {}
        for name, text in options.items():
            try:
                found[CSV_OPTIONS[name]] = _READERS[name](text)
            except ValueError as error:
                raise OptionError(name, str(error)) from None
        config = cls(**found)
        for name, reason in config.mistakes():
            raise OptionError(name, f"it {reason}")
        return config


PLAIN_CSV: Final = CsvConfig()

CSV_OPTIONS: Final[Mapping[str, str]] = {field.name.replace("_", "-"): field.name for field in fields(CsvConfig)}
"""The options' names, and the attributes that they set."""

_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    name: flag if getattr(PLAIN_CSV, attribute) in (True, False) else str for name, attribute in CSV_OPTIONS.items()
}

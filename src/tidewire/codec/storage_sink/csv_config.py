"""How CSV records are written: ``[sink.csv]`` of a changefeed, and the options of a sync that reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_TERMINATOR: Final = "\r\n"
"""What ends a record unless a changefeed says otherwise."""

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


PLAIN_CSV: Final = CsvConfig()

"""Which of the two encodings the options ask for."""

from __future__ import annotations

from collections.abc import Mapping

from tidewire.codec.options import EncodingFormat, Options
from tidewire.codec.simple import avro_format, json_format
from tidewire.codec.simple.wire import Format

_FORMATS: Mapping[EncodingFormat, Format] = {EncodingFormat.JSON: json_format, EncodingFormat.AVRO: avro_format}


def format_of(options: Options) -> Format:
    """The encoding of ``encoding-format``."""
    return _FORMATS[options.encoding_format]

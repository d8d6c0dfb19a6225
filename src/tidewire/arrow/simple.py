"""Simple rows straight into columns: the scanner of the encoding the options ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module

from tidewire.arrow.convert import Policy
from tidewire.arrow.decode import Groups
from tidewire.codec.base import Decoder
from tidewire.codec.options import EncodingFormat, Options

_MODULES: Mapping[EncodingFormat, str] = {
    EncodingFormat.JSON: "tidewire.arrow.simple_json",
    EncodingFormat.AVRO: "tidewire.arrow.simple_avro",
}


class Scanner:
    """Takes rows out of Simple messages of one encoding."""

    def __init__(self, options: Options, policy: Policy, decoder: Decoder) -> None:
        self._scanner = import_module(_MODULES[options.encoding_format]).Scanner(options, policy, decoder)

    def scan(self, keys: Sequence[bytes | None], values: Sequence[bytes | None], groups: Groups) -> Iterable[int]:
        """Put rows into groups; the places of the messages that were left alone."""
        left: Iterable[int] = self._scanner.scan(keys, values, groups)
        return left

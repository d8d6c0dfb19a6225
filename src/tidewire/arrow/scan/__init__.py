"""Scanners: one for each protocol, which takes the rows it is sure of out of messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Protocol, cast

from tidewire.arrow.plan import Groups
from tidewire.arrow.policy import Policy
from tidewire.codec import Options
from tidewire.codec.base import Decoder


class Scanner(Protocol):
    """Takes rows out of messages of one protocol."""

    def scan(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], groups: Groups, start: int = 0
    ) -> Iterable[int]:
        """Put rows into groups; the places of the messages that were left alone. The first message's is ``start``.

        The codec reads each place as it is given out. A scanner that needs what the codec learns from a message for
        the messages after it is a generator.
        """
        ...


SCANNERS: Mapping[str, str] = {
    "avro": "tidewire.arrow.scan.avro",
    "canal-json": "tidewire.arrow.scan.canal_json",
    "craft": "tidewire.arrow.scan.craft",
    "open-protocol": "tidewire.arrow.scan.open_protocol",
    "simple-json": "tidewire.arrow.scan.simple_json",
    "simple-avro": "tidewire.arrow.scan.simple_avro",
}
"""The module of each protocol's scanner, loaded when first asked for; Simple has one for each of its encodings."""


def encoding_name(protocol_name: str, options: Options) -> str:
    """The name of a protocol and, for Simple, of its encoding."""
    return f"simple-{options.encoding_format}" if protocol_name == "simple" else protocol_name


def scanner_for(protocol_name: str, options: Options, policy: Policy, decoder: Decoder) -> Scanner | None:
    """The scanner of a protocol, if it has one; ``decoder`` reads what it leaves, and knows what came before."""
    module = SCANNERS.get(encoding_name(protocol_name, options))
    return None if module is None else cast("Scanner", import_module(module).Scanner(options, policy, decoder))

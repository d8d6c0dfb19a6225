"""How the messages of a storage source are read.

The key of a message is its place: the path of its file, and the line in it if it is a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tidewire.arrow import BatchDecoder, Policy, ZeroDates
from tidewire.codec import Decoder, Options, Resources, protocol
from tidewire.codec.storage_sink.csv_config import DEFAULT_TERMINATOR
from tidewire.codec.storage_sink.layout import METADATA, schema_path
from tidewire.codec.storage_sink.schema_file import Definition, checkpoint
from tidewire.model import Event, Message, Watermark

_CANAL: Final = "canal-json"


@dataclass(frozen=True, slots=True)
class StorageForm:
    """What files of rows look like. It travels to executors."""

    protocol: str
    terminator: str = DEFAULT_TERMINATOR

    @property
    def extension(self) -> str:
        """What the names of files of rows end with."""
        return ".json"

    @property
    def record_end(self) -> bytes:
        """What records are told apart by."""
        return b"\n" if self.terminator.endswith("\n") else self.terminator.encode()

    @property
    def quote(self) -> bytes:
        """What values with line breaks are between; JSON escapes them."""
        return b""

    def value(self, record: bytes) -> bytes:
        """The message in a record; empty if there is none."""
        return record.removesuffix(self.terminator.encode()).strip()

    def decoder(self, options: Mapping[str, str], policy: Policy) -> BatchDecoder:
        """A decoder for one task."""
        return _decoder(self, tuple(sorted(options.items())), policy.time_zone, policy.zero_dates)

    def place(self, message: Message) -> str:
        """Where a message stands, for people."""
        return (message.key or b"").decode("utf-8", "replace")


@lru_cache(maxsize=4)
def _decoder(
    form: StorageForm, settings: tuple[tuple[str, str], ...], time_zone: str, zero_dates: ZeroDates
) -> BatchDecoder:
    options = Options.parse(dict(settings))
    decoder = StorageDecoder(options, protocol(form.protocol).Decoder(options))
    return BatchDecoder(form.protocol, options, policy=Policy(time_zone, zero_dates), decoder=decoder)


class StorageDecoder:
    """Messages of a storage source to events: statements, watermarks and rows."""

    def __init__(self, options: Options, rows: Decoder) -> None:
        self.options, self.resources = options, Resources()
        self._rows = rows

    def decode(self, message: Message) -> list[Event]:
        """The events in one message."""
        path = (message.key or b"").decode("utf-8", "replace")
        if path == METADATA:
            return [Watermark(checkpoint(message.value or b""))]
        if schema_path(path) is not None:
            ddl = Definition.parse(message.value or b"").ddl()
            return [] if ddl is None else [ddl]
        return list(self._rows.decode(message))

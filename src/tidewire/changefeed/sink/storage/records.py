"""What a file of rows holds: messages of Canal-JSON or CSV records, each with a terminator."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from tidewire.changefeed.config.settings import StorageSettings
from tidewire.codec import Options, Resources, protocol
from tidewire.codec.storage_sink.csv_encoder import CsvEncoder
from tidewire.errors import ChangefeedError
from tidewire.model import RowChange, TableSchema

UNKNOWN = "CDC:ErrSinkUnknownProtocol"


class Records(Protocol):
    """Turns changes into the bytes of a file. ``extension`` ends the names of such files."""

    extension: str

    def header(self, table: TableSchema) -> bytes:
        """What a file of that table begins with."""
        ...

    def record(self, change: RowChange) -> bytes:
        """A change, terminator included."""
        ...


class CsvRecords(CsvEncoder):
    """CSV, with a header where one is wanted."""

    extension = "csv"


class CanalRecords:
    """Canal-JSON: a message for each row, of any size."""

    extension = "json"

    def __init__(self, options: Options, resources: Resources, terminator: str) -> None:
        self._encoder = protocol("canal-json").Encoder(replace(options, max_message_bytes=sys.maxsize), resources)
        self._end = terminator.encode()

    def header(self, table: TableSchema) -> bytes:
        """Nothing."""
        return b""

    def record(self, change: RowChange) -> bytes:
        """A change as a message."""
        return b"".join((message.value or b"") + self._end for message in self._encoder.encode([change]))


def records_for(name: str, settings: StorageSettings, options: Options, resources: Resources) -> Records:
    """The form of files for a protocol."""
    form = _FORMS.get(name)
    if form is None:
        raise ChangefeedError(UNKNOWN, f"{name!r} cannot be stored in files; known are {', '.join(_FORMS)}")
    return form(settings, options, resources)


_FORMS: Mapping[str, Callable[[StorageSettings, Options, Resources], Records]] = {
    "csv": lambda settings, _, __: CsvRecords(settings.csv, settings.terminator),
    "canal-json": lambda settings, options, resources: CanalRecords(options, resources, settings.terminator),
}

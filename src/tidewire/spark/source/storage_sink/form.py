"""How the messages of a storage source are read.

The key of a message is its place: the path of its file, and the line in it if it is a row. The value is a whole schema
file, or a record of a file of rows; a record of CSV has the header of its file before it if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from tidewire.arrow import BatchDecoder, Policy, ZeroDates
from tidewire.codec import Decoder, Options, Resources, protocol
from tidewire.codec.storage_sink.csv_config import CSV_OPTIONS, DEFAULT_TERMINATOR, PLAIN_CSV, CsvConfig
from tidewire.codec.storage_sink.csv_decoder import PROTOCOL as CSV
from tidewire.codec.storage_sink.csv_decoder import CsvDecoder, CsvReader
from tidewire.codec.storage_sink.layout import METADATA, data_path, schema_path
from tidewire.codec.storage_sink.schema_file import Definition, checkpoint
from tidewire.errors import DecodeError, OptionError
from tidewire.model import Event, Message, TableName, TableSchema, Watermark
from tidewire.spark.peek import MessageHeader, peek
from tidewire.spark.source.storage_sink.records import records
from tidewire.storage import Storage

CANAL: Final = "canal-json"
PROTOCOLS: Final = (CANAL, CSV)
"""What files of rows can be written in."""

_TERMINATOR: Final = "terminator"
_EXTENSIONS: Final = {CANAL: ".json", CSV: ".csv"}


@dataclass(frozen=True, slots=True)
class StorageForm:
    """What files of rows look like, and where the schema files are. It travels to executors."""

    protocol: str
    store: Storage = field(repr=False)
    terminator: str = DEFAULT_TERMINATOR
    csv: CsvConfig = PLAIN_CSV

    @classmethod
    def parse(cls, name: str, store: Storage, options: Mapping[str, str]) -> tuple[StorageForm, dict[str, str]]:
        """The form that the options of a sync describe, and the options that are the codec's."""
        if name not in PROTOCOLS:
            raise OptionError("protocol", f"a storage sink writes {' or '.join(PROTOCOLS)}, not {name}")
        terminator = _unescaped(options.get(_TERMINATOR, DEFAULT_TERMINATOR))
        if not terminator:
            raise OptionError(_TERMINATOR, "it must not be empty, or no record can be told from the next one")
        rest = {each: text for each, text in options.items() if each != _TERMINATOR}
        if name != CSV:
            return cls(name, store, terminator), rest
        csv = CsvConfig.parse({each: _unescaped(text) for each, text in rest.items() if each in CSV_OPTIONS})
        return cls(name, store, terminator, csv), {each: text for each, text in rest.items() if each not in CSV_OPTIONS}

    @property
    def extension(self) -> str:
        """What the names of files of rows end with."""
        return _EXTENSIONS[self.protocol]

    def messages(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The messages in a file of rows, each with its line."""
        if self.protocol == CSV:
            found = records(data, self.terminator.encode(), self.csv.quote.encode())
            header = next(found, None) if self.csv.output_field_header else None
            before = b"" if header is None else header.data
            yield from ((record.line, before + record.data) for record in found)
            return
        end = b"\n" if self.terminator.endswith("\n") else self.terminator.encode()
        for record in records(data, end):
            message = record.data.removesuffix(self.terminator.encode()).strip()
            if message:
                yield record.line, message

    def decoder(self, options: Mapping[str, str], policy: Policy) -> BatchDecoder:
        """A decoder for one task."""
        return _decoder(self, tuple(sorted(options.items())), policy.time_zone, policy.zero_dates)

    def check_readable(self, sample: Iterable[Message]) -> None:
        """Raise :class:`OptionError` if none of the first records of CSV can be read."""
        rows, problem = CsvRows(self), None
        for message in sample if self.protocol == CSV else ():
            try:
                rows.decode(message)
            except NoSchemaFile:
                return
            except DecodeError as error:
                problem = problem or f"{self.place(message)}: {error.reason}"
            else:
                return
        if problem is not None:
            raise OptionError("protocol", f"none of the first records of CSV can be read: {problem}")

    def place(self, message: Message) -> str:
        """Where a message stands, for people."""
        return (message.key or b"").decode("utf-8", "replace")

    def header(self, message: Message, options: Options) -> MessageHeader:
        """What a message that cannot be read tells of itself."""
        path = _path(message)
        if path == METADATA or schema_path(path) is not None:
            return MessageHeader()
        if self.protocol != CSV:
            return peek(self.protocol, message, options)
        try:
            *_, record = records(message.value or b"", self.terminator.encode(), self.csv.quote.encode())
            reader = CsvReader(self.csv, self.terminator)
            head = reader.head(reader.cells(record.data.removesuffix(reader.end) + reader.end))
        except (DecodeError, ValueError):
            return MessageHeader()
        return MessageHeader(TableName(head.schema, head.table), head.commit_ts)


def _unescaped(text: str) -> str:
    r"""A text in which ``\r``, ``\n`` and ``\t`` may stand for the characters that a command line hardly has."""
    return text.replace("\\r", "\r").replace("\\n", "\n").replace("\\t", "\t")


def _path(message: Message) -> str:
    """The path of the file that a message is from."""
    place = (message.key or b"").decode("utf-8", "replace")
    path, colon, line = place.rpartition(":")
    return path if colon and line.isdigit() else place


@lru_cache(maxsize=4)
def _decoder(
    form: StorageForm, settings: tuple[tuple[str, str], ...], time_zone: str, zero_dates: ZeroDates
) -> BatchDecoder:
    options, policy = Options.parse(dict(settings)), Policy(time_zone, zero_dates)
    if form.protocol == CSV:
        decoder = StorageDecoder(options, CsvRows(form).decode)
        return BatchDecoder(CANAL, options, policy=policy, decoder=decoder, fast=False)
    rows: Decoder = protocol(form.protocol).Decoder(options)
    return BatchDecoder(form.protocol, options, policy=policy, decoder=StorageDecoder(options, rows.decode))


class StorageDecoder:
    """Messages of a storage source to events: statements, watermarks and rows."""

    def __init__(self, options: Options, rows: Callable[[Message], list[Event]]) -> None:
        self.options, self.resources = options, Resources()
        self._rows = rows

    def decode(self, message: Message) -> list[Event]:
        """The events in one message."""
        path = _path(message)
        if path == METADATA:
            return [Watermark(checkpoint(message.value or b""))]
        if schema_path(path) is not None:
            ddl = Definition.parse(message.value or b"").ddl()
            return [] if ddl is None else [ddl]
        return list(self._rows(message))


class NoSchemaFile(DecodeError):
    """The columns of a record are not known, because their schema file is not there."""


class CsvRows:
    """Records of CSV, with the schema files that belong to them."""

    def __init__(self, form: StorageForm) -> None:
        self._form = form
        self._reader = CsvReader(form.csv, form.terminator)
        self._tables: dict[tuple[str, int], TableSchema] = {}
        self._decoders: dict[tuple[str, bytes], CsvDecoder] = {}

    def decode(self, message: Message) -> list[Event]:
        """The change in one message."""
        folder, record, header = _path(message).rpartition("/")[0], message.value or b"", b""
        if self._form.csv.output_field_header:
            first = next(records(record, self._reader.end, self._form.csv.quote.encode()))
            header, record = first.data, record[len(first.data) :]
        decoder = self._decoders.get((folder, header))
        if decoder is None:
            names = self._reader.header(header) if self._form.csv.output_field_header else None
            self._reader.head(self._reader.cells(record))  # a record that is no record needs no schema file
            decoder = CsvDecoder(self._reader, self._table(_path(message)), names)
            self._decoders[folder, header] = decoder
        return [decoder.decode(record)]

    def _table(self, path: str) -> TableSchema:
        """The table whose rows a file has."""
        for tables in ((), (path.partition("/")[0],)):  # a folder schema/table, or one named after a table's id
            place = data_path(path, tables)
            if place is None:
                continue
            if (place.folder, place.version) not in self._tables:
                self._tables |= self._listed(place.folder)
            found = self._tables.get((place.folder, place.version))
            if found is not None:
                return found
        wanted = data_path(path)
        where = path if wanted is None else f"{wanted.folder}/meta/schema_{wanted.version}_….json"
        raise NoSchemaFile(CSV, f"there is no schema file {where}: bring it back, then tidewire holds retry")

    def _listed(self, folder: str) -> dict[tuple[str, int], TableSchema]:
        """The tables in the schema files of a folder, by version."""
        found = {}
        for entry in self._form.store.list(f"{folder}/meta"):
            place = schema_path(entry.name)
            data = None if place is None else self._form.store.read(entry.name)
            if place is not None and data is not None:
                found[folder, place.version] = Definition.parse(data).table()
        return found

"""What the scanners of Simple's two encodings share: the walk over messages, and the tables their rows are of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from tidewire.arrow.plan import BufferedRow, Groups, Plan
from tidewire.arrow.policy import Policy
from tidewire.codec.compression import decompress
from tidewire.codec.options import Compression, IntegrityCheck, Options
from tidewire.codec.simple.decoder import Decoder
from tidewire.model import TableName, TableSchema

_MOST_KNOWN: Final = 512
"""Shapes that are kept; more begin anew."""


class Shape:
    """A schema as the rows of an encoding need it."""

    def __init__(self, schema: TableSchema, plan: Plan) -> None:
        self.schema, self.plan = schema, plan


_S = TypeVar("_S", bound=Shape)
_K = TypeVar("_K", bound=Hashable)


class Table(NamedTuple, Generic[_S]):
    """A table as the rows of one physical id and schema version need it."""

    shape: _S
    partition: int | None


class SimpleScanner(ABC, Generic[_K, _S]):
    """Takes rows out of Simple messages. What their columns are it asks the decoder's memory of schemas."""

    unread: ClassVar[tuple[type[Exception], ...]]
    """What :meth:`row` raises where a message is left alone."""

    def __init__(self, options: Options, policy: Policy, decoder: Decoder) -> None:
        self.verifies = options.integrity_check_level is not IntegrityCheck.NONE
        self.tables: dict[_K, Table[_S]] = {}
        self._compression = options.large_message_handle_compression
        self.policy = policy
        self._schemas = decoder.schemas
        self._shapes: dict[int, _S] = {}

    @abstractmethod
    def new_shape(self, schema: TableSchema) -> _S:
        """A schema as its rows need it."""

    @abstractmethod
    def row(self, pos: int, value: bytes) -> tuple[Plan, BufferedRow] | None:
        """The row of a message and its plan; ``None`` if the message is left alone."""

    def scan(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], groups: Groups, start: int = 0
    ) -> Iterator[int]:
        """Put rows into groups; the places of the messages that were left alone.

        Any message that is left may bring a schema, so tables are looked up anew behind it.
        """
        self.tables.clear()
        packed = self._compression is not Compression.NONE
        for pos, value in enumerate(values, start):
            try:
                found = self.row(pos, decompress(value, self._compression) if packed else value) if value else None
            except self.unread:
                found = None
            if found is None:
                yield pos
                self.tables.clear()
            else:
                plan, row = found
                groups[plan].append(row)

    def find(self, key: _K, name: TableName, version: int, table_id: int) -> Table[_S] | None:
        """The table of rows with such a key, from now on in ``tables``; ``None`` if its schema has not come by."""
        schema = self._schemas.find(name, version, table_id)
        if schema is None:
            return None
        partition = None if table_id in (0, schema.table_id) else table_id
        known = self.tables[key] = Table(self._shape(schema), partition)
        return known

    def _shape(self, schema: TableSchema) -> _S:
        # By identity, because a schema takes long to hash; that the shape keeps it keeps the number its own.
        known = self._shapes.get(id(schema))
        if known is None:
            if len(self._shapes) == _MOST_KNOWN:
                self._shapes.clear()
            known = self._shapes[id(schema)] = self.new_shape(schema)
        return known

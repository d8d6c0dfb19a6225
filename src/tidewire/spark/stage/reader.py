"""How messages are read: what an executor needs to make itself a decoder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tidewire.arrow import BatchDecoder, Policy, ZeroDates
from tidewire.codec import Options
from tidewire.model import MySQLType, TableName, TableSchema
from tidewire.spark.decoding import decoder_for
from tidewire.spark.source import MessageForm
from tidewire.sync.rules import Rules


class Before(StrEnum):
    """How much of an old row is wanted."""

    ALL = "all"
    KEY = "key"
    """Only the handle key's columns, all where the message does not tell which those are: enough to keep a mirror."""


@dataclass(frozen=True, slots=True)
class Reader:
    """How messages are read. It travels to executors, so it holds names and settings and nothing that is open.

    ``options`` are TiCDC's, by TiCDC's names. ``has_watermarks``: rows carry a commit ts and watermarks say when they
    are complete; else a row's ts is its offset. ``schemas`` are those Simple sent in earlier batches. ``declared`` are
    tables as far as they are known: a DECIMAL that a message sends without its scale gets the declared one, if it fits.
    ``rules`` say which tables are left out, and which columns are masked. ``keep_rejected``: are the bytes of messages
    kept that cannot be read? ``form`` is that of a source whose messages are not those of a protocol.
    """

    protocol: str
    options: Mapping[str, str] = field(default_factory=dict)
    has_watermarks: bool = True
    zero_dates: ZeroDates = ZeroDates.NULL
    before: Before = Before.ALL
    schemas: tuple[TableSchema, ...] = ()
    declared: tuple[TableSchema, ...] = ()
    rules: Rules = field(default_factory=Rules)
    keep_rejected: bool = True
    form: MessageForm | None = None

    def decimals(self) -> dict[TableName, TableSchema]:
        """The DECIMAL columns of the tables, by folded name."""
        return {table.name.folded: table for table in with_decimals(self.declared)}

    def parsed(self) -> Options:
        """The options, checked."""
        return Options.parse(self.options)

    def policy(self) -> Policy:
        """How values are read."""
        return Policy(self.parsed().time_zone, self.zero_dates)

    def decoder(self) -> BatchDecoder:
        """A decoder for one task."""
        if self.form is not None:
            return self.form.decoder(self.options, self.policy())
        return decoder_for(self.protocol, self.options, self.zero_dates, schemas=self.schemas)


def with_decimals(tables: Iterable[TableSchema]) -> tuple[TableSchema, ...]:
    """The tables that have DECIMAL columns, with only those: all that travels to executors."""
    found = []
    for table in tables:
        columns = tuple(column for column in table.columns if column.type is MySQLType.DECIMAL and column.length)
        if columns:
            found.append(replace(table, columns=columns))
    return tuple(found)

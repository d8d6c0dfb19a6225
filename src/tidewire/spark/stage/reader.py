"""How messages are read: what an executor needs to make itself a decoder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache

from tidewire.arrow import BatchDecoder, Policy, ZeroDates
from tidewire.codec import Options, Resources, protocol
from tidewire.codec.claim_check import open_store
from tidewire.codec.simple import Decoder as SimpleDecoder
from tidewire.codec.simple.schema import SchemaCache
from tidewire.model import MySQLType, TableName, TableSchema
from tidewire.registry import open_registry
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
    kept that cannot be read?
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
        """A decoder for one task.

        Plans are kept from task to task, in each process. But schemas that messages brought are not: what a task knows
        must not depend on which tasks ran before it.
        """
        options = self.parsed()
        if protocol(self.protocol).carries(options).needs_schema:
            known = SchemaCache()
            for schema in self.schemas:
                known.add(schema)
            decoder = SimpleDecoder(options, resources_of(options), known)
            return BatchDecoder(self.protocol, options, policy=self.policy(), decoder=decoder)
        return _kept_decoder(self.protocol, tuple(sorted(self.options.items())), self.zero_dates)


def with_decimals(tables: Iterable[TableSchema]) -> tuple[TableSchema, ...]:
    """The tables that have DECIMAL columns, with only those: all that travels to executors."""
    found = []
    for table in tables:
        columns = tuple(column for column in table.columns if column.type is MySQLType.DECIMAL and column.length)
        if columns:
            found.append(replace(table, columns=columns))
    return tuple(found)


@lru_cache(maxsize=4)
def _kept_decoder(name: str, settings: tuple[tuple[str, str], ...], zero_dates: ZeroDates) -> BatchDecoder:
    options = Options.parse(dict(settings))
    policy = Policy(options.time_zone, zero_dates, lost_floats=name == "craft")
    return BatchDecoder(name, options, resources_of(options), policy=policy)


def resources_of(options: Options) -> Resources:
    """The claim checks and the schema registry that the options name."""
    return Resources(
        claim_check=open_store(options.claim_check_storage_uri) if options.claim_check_storage_uri else None,
        registry=open_registry(options.schema_registry) if options.schema_registry else None,
    )

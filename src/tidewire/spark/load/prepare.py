"""Completes and checks the settings of a load before Spark is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from tidewire.errors import LoadError, OptionError
from tidewire.load.chunks import DumpSource
from tidewire.load.dialect import Dialect
from tidewire.load.dumpling import read_dump
from tidewire.load.live import SCHEMES
from tidewire.load.opening import open_live
from tidewire.load.source import Source
from tidewire.model import TableName
from tidewire.spark.catalogs import needed_jars
from tidewire.spark.job import Job
from tidewire.spark.ledger import ledger_of, owner_of, refuse_other_sync, required_owner
from tidewire.spark.load.replace import check_rules
from tidewire.spark.prepare import check_folder, job_of, opened
from tidewire.spark.services import check_catalog_answers
from tidewire.spark.source import NoSource
from tidewire.spark.targets import Target
from tidewire.storage import open_storage
from tidewire.sync.config import SyncConfig
from tidewire.sync.rules import wanted_by

_PREFIXES: Final = ("dumpling:", "dumpling+")
_TSO_FROM: Final = 1 << 50
"""Numbers below it are no TSO of this century, but a time, or the position in a binlog."""


@dataclass(frozen=True, slots=True)
class PreparedLoad:
    """A load that can begin. ``skipped`` are views and sequences of a dump.

    ``rewinds``: a changefeed can begin at the moment of the load, even if that is past.
    """

    uri: str
    job: Job
    load: Source
    skipped: tuple[TableName, ...] = ()
    rewinds: bool = True

    @property
    def needed_jars(self) -> tuple[str, ...]:
        """The sets of jars that the target needs."""
        return needed_jars(self.uri, self.job.catalog)

    def target(self, spark: SparkSession) -> AbstractContextManager[tuple[SparkSession, Target]]:
        """The target, and a session of its own on the given one's Spark, which is not changed."""
        return opened(spark, self.uri, self.job)


def prepared_load(
    source: str,
    config: SyncConfig,
    *,
    tables: Sequence[str] = (),
    at: int | None = None,
    options: Mapping[str, str] = {},
    take_over: bool = False,
    replaces: bool = False,
) -> PreparedLoad:
    """Look at a source and check all that can be checked without Spark; errors say what to do.

    ``config`` is as for the sync of the target: format, mode, catalog, staging and rules must be the same. A load that
    ``replaces`` tables needs a target that a sync or load has written to, and its sync may run.
    """
    if at is not None and at < _TSO_FROM:
        raise OptionError("at", f"{at} is not a TSO: TSOs of this century have 17 digits or more")
    found = (_live if source.partition("://")[0] in SCHEMES else _dump)(source, config, tables, at, options)
    uri, asked = config.target or "", job_of(config)
    owner = owner_of(ledger_of(uri))
    job = replace(
        asked,
        options={name: value for name, value in config.option.items() if name == "time-zone"},
        has_watermarks=owner is None or owner.has_watermarks,
    )
    refuse_other_sync(ledger_of(uri), job.owner(NoSource()), take_over=take_over or replaces)
    if replaces:
        required_owner(ledger_of(uri))
        check_rules(ledger_of(uri), job.rules)
    check_folder(uri)
    check_catalog_answers(job.catalog)
    return PreparedLoad(uri, job, found.load, found.skipped, found.rewinds)


class _Found(NamedTuple):
    """A source, and what a load of it must know."""

    load: Source
    skipped: tuple[TableName, ...] = ()
    rewinds: bool = True


def _live(source: str, config: SyncConfig, tables: Sequence[str], at: int | None, options: Mapping[str, str]) -> _Found:
    """The tables of a server."""
    if options:
        raise OptionError(next(iter(options)), "it is an option of dumps; a server tells by itself what it has")
    selected = wanted_by(tables)
    load = open_live(source, lambda name: selected(name) and config.rules.wants(name), tuple(tables), at)
    return _Found(load, rewinds=load.rewinds)


def _dump(source: str, config: SyncConfig, tables: Sequence[str], at: int | None, options: Mapping[str, str]) -> _Found:
    """The tables of a Dumpling folder."""
    storage, dialect = open_storage(_place(source), "source"), Dialect.parse(options)
    dump = read_dump(storage)
    selected = wanted_by(tables)
    found = tuple(each for each in dump.tables if selected(each.schema.name) and config.rules.wants(each.schema.name))
    if not found:
        names = ", ".join(str(each.schema.name) for each in dump.tables[:20]) or "none"
        raise LoadError(f"the dump has no table that is wanted; it has {names}")
    ts = at if at is not None else dump.ts
    if ts is None:
        raise LoadError(
            f"the dump is not from TiDB (its log: {dump.log or 'none'}), so its position is not a TSO. Give --at "
            "with the TSO from which on the topic continues it"
        )
    return _Found(DumpSource(storage, found, ts, dialect), dump.skipped)


def _place(source: str) -> str:
    """The folder of ``dumpling:DIR`` or ``dumpling+s3://bucket/prefix``."""
    for prefix in _PREFIXES:
        if source.startswith(prefix) and len(source) > len(prefix):
            return source.removeprefix(prefix)
    told = f"for a folder that Dumpling wrote give dumpling:{source}, " if "://" not in source else ""
    raise OptionError(
        "source", f"{source!r} is not a source: {told}else dumpling+s3://bucket/prefix, mysql://… or tidb://…"
    )

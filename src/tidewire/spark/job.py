"""What is to be synced, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidewire.errors import OptionError
from tidewire.model import TableName
from tidewire.spark.apply import Mode
from tidewire.spark.ledger import Owner
from tidewire.spark.maintain import DEFAULT, Every
from tidewire.spark.source import Source
from tidewire.spark.source.base import MessageForm
from tidewire.spark.stage import Before, Reader, with_decimals
from tidewire.sync.catalog_settings import CatalogSettings
from tidewire.sync.rules import Rules
from tidewire.sync.state import OnBad, State

PATIENCE_SECONDS: Final = 300.0
"""How long a store, registry or broker that does not answer is waited for, unless a job says otherwise."""


FORMAT_VERSION: Final = 3
"""The version of Iceberg's format that new tables have, unless a job or a rule says otherwise."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be synced, and how. ``until`` is a TSO above which nothing is applied."""

    protocol: str
    options: Mapping[str, str] = field(default_factory=dict)
    has_watermarks: bool = True
    mode: Mode = Mode.MIRROR
    format: str = "iceberg"
    catalog: CatalogSettings | None = None
    on_bad: OnBad = OnBad.HOLD
    until: int | None = None
    parallel: int = 4
    rules: Rules = field(default_factory=Rules)
    keep_rejected: bool = True
    maintain: Every = DEFAULT
    patience: float = PATIENCE_SECONDS
    format_version: int = FORMAT_VERSION
    staging: str | None = None
    atomic: bool = False

    def __post_init__(self) -> None:
        """Raise :class:`OptionError` if the target's format does not have what is asked for."""
        if self.format != "iceberg" and self.format_version != FORMAT_VERSION:
            raise OptionError(
                "format-version", f"only Iceberg's format has versions, and the format is {self.format}: leave it out"
            )
        if self.atomic and (self.format != "iceberg" or self.catalog is None or self.catalog.kind != "rest"):
            raise OptionError("atomic", "only Iceberg tables in a REST catalog can be committed together; leave it out")
        for rule in self.rules.tables:
            rule.options.check_format(self.format, rule.place)

    @property
    def time_zone(self) -> str:
        """The upstream server's time zone."""
        return self.options.get("time-zone", "UTC")

    def owner(self, source: Source) -> Owner:
        """The sync that a target belongs to once this job has written to it."""
        return Owner(
            source.identity,
            self.protocol,
            self.format,
            str(self.mode),
            self.has_watermarks,
            self.time_zone,
            "" if self.catalog is None else self.catalog.name,
        )

    def mode_of(self, name: TableName, rules: Rules | None = None) -> Mode:
        """The mode a table is made in."""
        return Mode((rules or self.rules).mode(name, self.mode))

    @property
    def before(self) -> Before:
        """How much of old rows is needed."""
        modes = {self.mode, *(Mode(rule.mode) for rule in self.rules.tables if rule.mode)}
        return Before.ALL if Mode.HISTORY in modes else Before.KEY

    def reader(self, state: State, form: MessageForm | None) -> Reader:
        """How messages are read from a state on, in the form of their source."""
        return Reader(
            self.protocol,
            self.options,
            has_watermarks=self.has_watermarks,
            before=self.before,
            schemas=state.schemas if self.has_watermarks else (),
            declared=with_decimals(state.tables.values()),
            rules=self.rules,
            keep_rejected=self.keep_rejected,
            form=form,
        )

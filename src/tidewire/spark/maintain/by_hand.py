"""Maintenance by hand: the running sync does it; if none runs, the caller does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from pyspark.sql import SparkSession

from tidewire.errors import SyncError
from tidewire.spark.ledger import Ledger, Owner, ask
from tidewire.spark.maintain.run import Maintained, MaintenanceSettings, maintain
from tidewire.spark.sessions import java_process, own_session
from tidewire.spark.staging import storage_of
from tidewire.spark.targets import CommitTag, close_target, open_target
from tidewire.storage import Storage
from tidewire.sync.catalog_settings import CatalogSettings

ANSWER_SECONDS: Final = 6 * 3600.0
"""How long a running sync may take: large tables take long to compact."""


def _silent(line: str) -> None:
    """Print nothing."""


def asked(storage: Storage, older_than: str, keep: int, tell: Callable[[str], None] = _silent) -> Maintained | None:
    """What the running sync did; ``None`` if no sync runs."""
    arguments = {"older-than": older_than, "keep": str(keep)}
    answer = ask(storage, "maintain", arguments, seconds=ANSWER_SECONDS, tell=tell)
    if answer is None:
        return None
    if not answer.ok:
        raise SyncError(f"the running sync refused: {' '.join(answer.lines)}")
    return msgspec.json.decode(answer.lines[0], type=Maintained)


def maintained(
    spark: SparkSession,
    target: str,
    owner: Owner,
    settings: MaintenanceSettings,
    catalog: CatalogSettings | None,
    tell: Callable[[str], None] = _silent,
) -> Maintained:
    """Maintain a target that has no driver; a dry run needs none. The session's settings are left as they are."""
    storage = storage_of(target)
    with own_session(spark) as own:
        tables = open_target(own, target, owner.format, catalog)
        try:
            if settings.dry_run:
                return maintain(tables, storage, settings)
            ledger = Ledger.open(storage, owner, jvm=java_process(spark), tell=tell)
            try:
                tag = CommitTag(ledger.owner.id, ledger.epoch.number, ledger.sequence, "maintenance")
                done = maintain(tables, storage, settings, tag, ledger.epoch.look)
                found = ledger.recover()
                if found.unfinished is None and found.published is not None:
                    known = {name: table.version for name, table in found.published.tables.items()}
                    versions = {each.table: each.version for each in done.tables if each.version is not None}
                    if known != {name: versions.get(name, version) for name, version in known.items()}:
                        ledger.republish(found.state, found.published, versions)
                return done
            finally:
                ledger.close()
        finally:
            close_target(own, tables)

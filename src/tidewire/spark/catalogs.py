"""Which catalog a target's tables are in: as it is given, or as the target remembers it.

The ledger's document ``catalog`` has the catalog's settings as they were written, without secrets, so ``show``,
``maintain`` and :func:`tidewire.snapshot` need not be told again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from tidewire.errors import OptionError, SyncError
from tidewire.spark.ledger import Owner
from tidewire.storage import Storage, store_kind, table_io
from tidewire.sync.catalog_settings import KINDS, CatalogSettings, RememberedCatalog
from tidewire.sync.documents import decode, encode

_NAME: Final = "catalog"

_WITH_WAREHOUSE: Final = ("glue", "hive", "jdbc")
"""The kinds of catalogs that put new tables where they are told. A REST server decides by itself."""

_REST_LIMITS: Final[Mapping[str, str]] = {
    "rest.client.connection-timeout-ms": "5000",
    "rest.client.socket-timeout-ms": "60000",
}
"""How long a REST server may take to accept a connection, and may send nothing. Iceberg itself sets no limit."""

_NOT_TESTED: Final = "refuse the second of two writers, but tidewire was never tested with two drivers on it"

_DELTA: Final[Mapping[str, str]] = {
    "s3": "Delta's log store for S3 (S3SingleDriverLogStore) lets two writers overwrite each other's commits, so a "
    "driver that was replaced could not be refused",
    "gs": f"Delta's log store for Google Cloud Storage (GCSLogStore) should {_NOT_TESTED}",
    "az": f"Delta's log store for Azure (AzureLogStore) should {_NOT_TESTED}",
    "hdfs": f"Delta's log store for HDFS (HDFSLogStore) should {_NOT_TESTED}",
}
"""Why Delta tables are not kept in a kind of store."""

_AMAZON: Final = ("s3://", "s3a://", "s3n://", "org.apache.iceberg.aws.")


def remember(storage: Storage, catalog: CatalogSettings) -> None:
    """Keep what a target must know of its catalog."""
    document = encode(catalog.remembered())
    if storage.read(_NAME) != document:
        storage.put(_NAME, document)


def catalog_of(
    storage: Storage, owner: Owner, catalogs: Mapping[str, CatalogSettings] = {}, more: Mapping[str, str] = {}
) -> CatalogSettings | None:
    """The catalog of a target, ``None`` if it is the embedded one.

    It is as ``catalogs`` describe it, or as the target remembers it. ``more`` are settings that it does not remember,
    because they are secret.
    """
    if not owner.catalog:
        return None
    if owner.catalog in catalogs:
        return catalogs[owner.catalog]
    data = storage.read(_NAME)
    if data is None:
        raise SyncError(
            f"the tables are in the catalog {owner.catalog}, which {storage.uri} does not describe: give --config with "
            f"the sync's file, which has [catalog.{owner.catalog}]"
        )
    return CatalogSettings.recalled(decode(data, RememberedCatalog), os.environ, more)


def spark_settings(catalog: CatalogSettings, target: str) -> dict[str, str]:
    """A catalog's settings by Spark's names, with what its target's URI says of the store."""
    defaults = table_io(target) | dict(_REST_LIMITS if catalog.kind == "rest" else {})
    warehouse = defaults.pop("warehouse", None)
    if catalog.kind not in _WITH_WAREHOUSE:
        defaults.pop("io-impl", None)
    elif warehouse is not None:
        defaults["warehouse"] = warehouse
    return catalog.spark(defaults)


def check_catalog(target: str, format_: str, catalog: CatalogSettings | None) -> None:
    """Refuse a target whose tables would have no catalog, or one that its format cannot use."""
    if catalog is not None and format_ != "iceberg":
        raise OptionError("catalog", f"only Iceberg has catalogs, and the format is {format_}")
    if not table_io(target):
        return
    if format_ == "delta":
        raise OptionError(
            "target-format",
            f"Delta tables are kept in local folders only: {_DELTA[store_kind(target)]}. Use Iceberg in a store",
        )
    if catalog is None:
        raise OptionError(
            "catalog",
            "the embedded catalog needs a local folder, and the target is in a store: give --catalog NAME and describe "
            f"it in [catalog.NAME] of --config, with type = {', '.join(KINDS)}",
        )


def needed_jars(target: str, catalog: CatalogSettings | None) -> tuple[str, ...]:
    """The sets of jars that a target needs."""
    settings = {} if catalog is None else catalog.settings
    places = (target, settings.get("warehouse", ""), settings.get("io-impl", ""))
    needs = {
        "aws": settings.get("type") == "glue" or any(each.startswith(_AMAZON) for each in places),
        "postgresql": settings.get("uri", "").startswith("jdbc:postgresql:"),
    }
    return ("base", *(name for name, needed in needs.items() if needed))

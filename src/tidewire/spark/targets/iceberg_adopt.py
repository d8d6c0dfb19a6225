"""Properties of a sync's Iceberg tables, and how a table that another program made gets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidewire.model import TableName
from tidewire.spark.targets.base import Adoptable, CommitTag, Java
from tidewire.spark.targets.iceberg_catalog import IcebergCatalog, IcebergTable
from tidewire.spark.targets.iceberg_swap import Facts, swap

PROPERTIES: Final[Mapping[str, str]] = {
    # A merge writes what is new and marks what is gone; measured, that is less than half of rewriting files.
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    # Rows come grouped already; another shuffle makes a merge a quarter dearer.
    "write.distribution-mode": "none",
    "write.delete.distribution-mode": "none",
    "write.update.distribution-mode": "none",
    "write.merge.distribution-mode": "none",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
    # Each commit writes a metadata file; without this a table that lives long has thousands of them.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}

_NAME_MAPPING: Final = "schema.name-mapping.default"
"""The property of tables with files that were written by other programs and have no ids of columns."""


def adoptable(table: IcebergTable, relation: str) -> Adoptable:
    """A table as it is."""
    schema = table.java.schema()
    required = frozenset(str(column.name()) for column in schema.columns() if column.isRequired())
    key = tuple(sorted(map(str, schema.identifierFieldNames())))
    return Adoptable(relation, tuple(table.fields().values()), required, key, _problem(table))


def _problem(table: IcebergTable) -> str | None:
    """Why a table cannot be taken over."""
    if table.format_version < 2:
        return "its format version is 1: set its property format-version to 2 or 3"
    if table.state.properties().get(_NAME_MAPPING) is not None:
        return f"it has files without ids of columns (property {_NAME_MAPPING}): rewrite them, and unset the property"
    return None


def adopt(catalog: IcebergCatalog, name: TableName, tag: CommitTag) -> str:
    """Commit the tag and the properties of a sync's tables to a table of another program; the version."""

    def update(transaction: Java, state: Facts) -> None:
        properties = transaction.updateProperties()
        for key, value in PROPERTIES.items():
            properties.set(key, value)
        properties.commit()

    return swap(catalog, name, tag, update, foreign=True)

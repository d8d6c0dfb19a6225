"""A process of its own that gives names to Delta tables."""

from __future__ import annotations

from threading import Barrier

from spark.targets.tags import tag
from tidewire.model import TableName
from tidewire.spark.targets.delta_catalogue import DeltaCatalogue
from tidewire.storage import open_storage

TABLES = 20


def write_names(folder: str, schema: str, together: Barrier) -> None:
    """Name tables, once all writers have read what there is."""
    catalogue = DeltaCatalogue(open_storage(folder))
    catalogue.names()
    together.wait()
    for number in range(TABLES):
        name = TableName(schema, str(number))
        catalogue.update(lambda names: names.with_table(name, f"{schema}{number}", tag(), 1))  # noqa: B023

"""DuckDB as a reader of Iceberg tables in a store. Its extensions come as packages, so nothing is fetched."""

from __future__ import annotations

from importlib import import_module, resources
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from object_stores import PARAMETERS, S3

_EXTENSIONS = ("avro", "httpfs", "iceberg")


def duckdb_on(store: S3) -> Any:
    """A connection of DuckDB that reads Iceberg tables in a store; without its packages the test is skipped."""
    duckdb: Any = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    for name in _EXTENSIONS:
        pytest.importorskip(f"duckdb_extension_{name}")
        folder = Path(str(resources.files(import_module(f"duckdb_extension_{name}"))))
        (file,) = folder.glob(f"extensions/*/{name}.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    key, secret, region = (PARAMETERS[name] for name in ("access-key", "secret-access-key", "region"))
    connection.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{key}', SECRET '{secret}', REGION '{region}', URL_STYLE 'path', "
        f"ENDPOINT '{store.endpoint.removeprefix('http://')}', USE_SSL false)"
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def rows_of_relation(connection: Any, relation: str, schema: pa.Schema) -> pa.Table:
    """The rows of what stands behind FROM, in the types of a schema."""
    found: pa.Table = connection.execute(f"SELECT * FROM {relation}").to_arrow_table()
    return found.cast(schema)

"""What a target needs, and what its URI says to its tables."""

from __future__ import annotations

import pytest

from tidewire.errors import OptionError
from tidewire.spark.catalogs import check_catalog, needed_jars, spark_settings
from tidewire.storage import table_io
from tidewire.sync.catalog_settings import CatalogSettings

REST = CatalogSettings("lake", {"type": "rest", "uri": "http://catalog"})
GLUE = CatalogSettings("lake", {"type": "glue"})
POSTGRES = CatalogSettings("lake", {"type": "jdbc", "uri": "jdbc:postgresql://db/c", "client.region": "eu-west-1"})


@pytest.mark.parametrize(
    ("target", "catalog", "jars"),
    [
        ("/data/lake", None, ("base",)),
        ("s3lake/data", None, ("base",)),
        ("s3://bucket/lake", REST, ("base", "aws")),
        ("s3a://bucket/lake", REST, ("base", "aws")),
        ("/data/lake", GLUE, ("base", "aws")),
        ("hdfs://name/lake", POSTGRES, ("base", "postgresql")),
        ("s3://bucket/lake", POSTGRES, ("base", "aws", "postgresql")),
    ],
)
def test_a_target_needs_the_jars_of_its_store_and_its_catalog(
    target: str, catalog: CatalogSettings | None, jars: tuple[str, ...]
) -> None:
    assert needed_jars(target, catalog) == jars


def test_what_the_uri_says_of_the_store_holds_for_tables_unless_the_catalog_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store:9000")
    prefix = "spark.sql.catalog.lake"

    settings = spark_settings(POSTGRES, "s3a://bucket/lake?access-key=a&secret-access-key=b&region=us-east-1")

    assert settings == {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "jdbc",
        f"{prefix}.uri": "jdbc:postgresql://db/c",
        f"{prefix}.client.region": "eu-west-1",
        f"{prefix}.warehouse": "s3://bucket/lake",
        f"{prefix}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        f"{prefix}.s3.endpoint": "http://store:9000",
        f"{prefix}.s3.path-style-access": "true",
        f"{prefix}.s3.access-key-id": "a",
        f"{prefix}.s3.secret-access-key": "b",
    }
    of_rest = spark_settings(REST, "s3://bucket/lake")
    assert {f"{prefix}.warehouse", f"{prefix}.io-impl"}.isdisjoint(of_rest)
    assert of_rest[f"{prefix}.rest.client.socket-timeout-ms"] == "60000"


@pytest.mark.parametrize(
    ("uri", "file_io", "warehouse"),
    [
        ("gcs://bucket/lake", "org.apache.iceberg.gcp.gcs.GCSFileIO", "gs://bucket/lake"),
        (
            "abfss://files@account.dfs.core.windows.net/lake",
            "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
            "abfss://files@account.dfs.core.windows.net/lake",
        ),
        ("hdfs://name:8020/lake/", "org.apache.iceberg.hadoop.HadoopFileIO", "hdfs://name:8020/lake"),
    ],
)
def test_each_store_has_its_file_io(uri: str, file_io: str, warehouse: str) -> None:
    found = table_io(uri)

    assert (found["io-impl"], found["warehouse"]) == (file_io, warehouse)


@pytest.mark.parametrize("place", ["lake", "/data/lake", "file:///data/lake", "ftp://host/lake"])
def test_other_places_have_none(place: str) -> None:
    assert table_io(place) == {}
    check_catalog(place, "iceberg", None)
    check_catalog(place, "delta", None)


@pytest.mark.parametrize(
    ("target", "format_", "catalog", "reason"),
    [
        ("s3://bucket/lake", "iceberg", None, "give --catalog NAME"),
        ("hdfs://name/lake", "iceberg", None, "give --catalog NAME"),
        ("s3a://bucket/lake", "delta", None, r"kept in local folders only: .*S3SingleDriverLogStore.*\. Use Iceberg"),
        ("gs://bucket/lake", "delta", None, r"kept in local folders only: .*GCSLogStore.*never tested.*\. Use Iceberg"),
        (
            "abfss://f@a.dfs.core.windows.net/lake",
            "delta",
            None,
            r"only: .*AzureLogStore.*never tested.*\. Use Iceberg",
        ),
        (
            "hdfs://name/lake",
            "delta",
            None,
            r"kept in local folders only: .*HDFSLogStore.*never tested.*\. Use Iceberg",
        ),
        ("/data/lake", "delta", REST, "only Iceberg has catalogs"),
        ("s3://bucket/lake?role-arn=arn", "iceberg", REST, "role-arn"),
    ],
)
def test_what_cannot_be_is_refused(target: str, format_: str, catalog: CatalogSettings | None, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        check_catalog(target, format_, catalog)

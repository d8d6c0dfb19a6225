"""Work in Spark's tasks."""

from __future__ import annotations

import importlib
import pickle
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zipimport import zipimporter

import pytest
from pyspark.sql import SparkSession

from tidewire.errors import StorageError
from tidewire.spark import tasks
from tidewire.spark.tasks import run_in_tasks


@dataclass(frozen=True)
class Doubled:
    """Twice a number."""

    number: int

    def run(self) -> int:
        return 2 * self.number


@dataclass(frozen=True)
class Unlucky:
    """Work that fails."""

    error: Exception

    def run(self) -> None:
        raise self.error


class Local(Exception):
    """An error that cannot travel: it is made of two things and remembers one."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)


@dataclass(frozen=True)
class Raises:
    """Work that fails with such an error."""

    def run(self) -> None:
        raise Local("one", "two")


def test_results_come_in_the_order_of_the_work(spark: SparkSession) -> None:
    assert run_in_tasks(spark.sparkContext, [Doubled(number) for number in range(5)]) == [0, 2, 4, 6, 8]


def test_an_error_is_raised_as_it_was_and_says_where_in_the_task(spark: SparkSession) -> None:
    with pytest.raises(StorageError, match="no answer") as caught:
        run_in_tasks(spark.sparkContext, [Unlucky(StorageError("s3://x", "a", "no answer", True))])

    assert caught.value.transient
    assert "raise self.error" in caught.value.__notes__[0]


def test_an_error_that_cannot_travel_is_left_to_spark() -> None:
    with pytest.raises(Local, match="one"):
        tasks._run(pickle.dumps(Raises()))


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Path]:
    """An archive with a module, on the path."""
    path = tmp_path / "modules.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("in_an_archive.py", "answer = 42")
        file.writestr("another_in_it.py", "answer = 43")
    sys.path.append(str(path))
    try:
        yield path
    finally:
        sys.path.remove(str(path))
        sys.path_importer_cache.pop(str(path), None)
        for name in ("in_an_archive", "another_in_it"):
            sys.modules.pop(name, None)


def test_a_worker_reads_the_directory_of_an_archive_once(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert importlib.import_module("in_an_archive").answer == 42
    read: list[zipimporter] = []
    monkeypatch.setattr(zipimporter, "invalidate_caches", lambda importer: read.append(importer))

    importlib.invalidate_caches()
    before = [importer.archive for importer in read]
    read.clear()
    tasks._run(pickle.dumps(Doubled(1)))
    importlib.invalidate_caches()

    assert str(archive) in before
    assert read == []
    assert importlib.import_module("another_in_it").answer == 43

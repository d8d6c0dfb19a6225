"""Publications: which version of which table belongs to which upstream time."""

from __future__ import annotations

from pathlib import Path

import pytest

from growing_topic import table
from tidewire.errors import StateError, SyncError
from tidewire.model import TableName
from tidewire.spark.publications import Publications, Published, PublishedTable, sequence_of, ts_of
from tidewire.storage import Storage, open_storage
from tidewire.sync.documents import encode


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


def published(sequence: int, ts: int | None, versions: dict[int, str], columns: int = 2) -> Published:
    """A publication of tables by their numbers."""
    tables = (PublishedTable(table(number, columns), version, "mirror") for number, version in versions.items())
    return Published(sequence, ts, {each.schema.name: each for each in tables})


def written(storage: Storage, folder: str) -> dict[str, int]:
    return {entry.name: entry.size for entry in storage.list(folder)}


def test_a_publication_is_read_as_it_was_written(storage: Storage) -> None:
    held = PublishedTable(table(2), "uuid@77", "scd2", held=15)
    wanted = Published(7, 20, {**published(7, 20, {0: "a", 1: "b"}).tables, table(2).name: held})

    name = Publications(storage).publish(wanted)

    assert (ts_of(name), sequence_of(name)) == (20, 7)
    assert Publications(storage).names() == [name]
    assert Publications(storage).read(name) == wanted
    assert Publications(storage).newest() == wanted


def test_a_table_may_be_published_under_another_name_than_its_schema_tells(storage: Storage) -> None:
    routed = Published(1, 10, {TableName("lake", "t"): PublishedTable(table(0), "v", "mirror")})

    Publications(storage).publish(routed)

    assert Publications(storage).newest() == routed


def test_the_newest_one_not_after_a_time_is_found(storage: Storage) -> None:
    publications = Publications(storage)
    for sequence, ts in enumerate((10, 20, 20, 40), 1):
        publications.publish(published(sequence, ts, {0: f"v{sequence}"}))

    def sequence_at(at: int | None) -> int | None:
        found = publications.newest(at)
        return None if found is None else found.sequence

    assert [sequence_at(at) for at in (9, 10, 19, 20, 39, 40, 99, None)] == [None, 1, 1, 3, 3, 4, 4, 4]
    assert publications.required(20).sequence == 3
    with pytest.raises(SyncError, match="has no publication that is not after 9"):
        publications.required(9)


def test_a_target_without_publications_says_so(storage: Storage) -> None:
    assert Publications(storage).newest() is None
    assert Publications(storage).names() == []
    with pytest.raises(SyncError, match="has no publication: "):
        Publications(storage).required()


def test_without_watermarks_there_is_no_time(storage: Storage) -> None:
    publications = Publications(storage)
    for sequence in (9, 10):
        publications.publish(published(sequence, None, {0: "v"}))

    newest = publications.newest()

    assert newest is not None
    assert (newest.sequence, newest.ts) == (10, None)


def test_the_columns_of_a_table_are_written_once(storage: Storage) -> None:
    """A publication among many tables is small, and so is one by another process."""
    publications = Publications(storage)
    publications.publish(published(1, 10, dict.fromkeys(range(30), "v1"), columns=40))
    schemas = written(storage, "schemas")
    for sequence in range(2, 6):
        writer = publications if sequence % 2 else Publications(storage)
        writer.publish(published(sequence, 10 * sequence, dict.fromkeys(range(30), f"v{sequence}"), columns=40))

    assert written(storage, "schemas") == schemas
    assert len(schemas) == 30
    assert max(written(storage, "published").values()) < sum(schemas.values()) / 5

    publications.publish(published(6, 60, {0: "v6"}, columns=41))
    assert len(written(storage, "schemas")) == 31


def test_versions_of_publications_that_stay_are_known_and_others_are_forgotten(storage: Storage) -> None:
    publications = Publications(storage)
    for sequence, tables in enumerate(({0: "a1", 1: "b1"}, {0: "a2", 1: "b1"}, {0: "a3"}, {0: "a3", 2: "c1"}), 1):
        publications.publish(published(sequence, sequence, tables))
    names = publications.names()

    first, second, third, fourth = names
    assert publications.versions(names) == {"a1": first, "b1": first, "a2": second, "a3": third, "c1": fourth}
    assert publications.versions(names[1:3]) == {"a2": second, "b1": second, "a3": third}
    publications.forget(names[:3])
    assert publications.names() == names[3:]
    assert publications.newest(3) is None
    assert publications.versions(names) == {"a3": fourth, "c1": fourth}
    with pytest.raises(SyncError, match="was removed by maintenance just now"):
        publications.read(names[0])


def test_a_publication_of_the_same_plan_replaces_itself(storage: Storage) -> None:
    publications = Publications(storage)
    for version in ("first", "again"):
        publications.publish(published(1, 10, {0: version}))

    assert [publications.read(name) for name in publications.names()] == [published(1, 10, {0: "again"})]


def test_a_missing_schema_and_a_damaged_document_are_named(storage: Storage) -> None:
    name = Publications(storage).publish(published(1, 10, {0: "v"}))
    (schema,) = written(storage, "schemas")
    storage.delete([schema])

    with pytest.raises(SyncError, match=f"{schema} is missing"):
        Publications(storage).newest()

    storage.put(f"published/{name}", encode(table(0)))
    with pytest.raises(StateError, match="this is a TableSchema document"):
        Publications(storage).newest()

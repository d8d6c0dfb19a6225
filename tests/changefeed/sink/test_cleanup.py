"""Old files are deleted when the cron expression is due, and nothing else is."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path

import pytest

from changefeed.pieces import insert
from tidewire.changefeed.config.settings import StorageSettings
from tidewire.changefeed.sink.cleanup import Cron, is_older
from tidewire.changefeed.sink.storage import StorageSink, records_for
from tidewire.codec import Options, Resources
from tidewire.codec.storage_sink.layout import DateSeparator
from tidewire.errors import ChangefeedError
from tidewire.storage import open_storage

DAY = datetime(2026, 11, 16)


@pytest.mark.parametrize(
    ("spec", "after", "until", "due"),
    [
        ("0 0 2 * * *", DAY.replace(hour=1), DAY.replace(hour=2), True),
        ("0 0 2 * * *", DAY.replace(hour=2), DAY.replace(hour=23), False),
        ("0 0 2 * * *", DAY.replace(hour=3), DAY.replace(day=17, hour=3), True),
        ("*/10 * * * * *", DAY.replace(second=1), DAY.replace(second=9), False),
        ("*/10 * * * * *", DAY.replace(second=1), DAY.replace(second=10), True),
        ("0 30 1-3 16 11 1", DAY, DAY.replace(hour=1, minute=30), True),
        ("0 30 1-3 16 11 0,2", DAY, DAY.replace(hour=23), False),
    ],
)
def test_a_cron_expression_is_due_at_its_times(spec: str, after: datetime, until: datetime, due: bool) -> None:
    assert Cron.parse(spec).is_due(after, until) is due


@pytest.mark.parametrize("spec", ["", "0 0 2 * *", "61 0 2 * * *", "x 0 2 * * *", "0 0 5-2 * * *"])
def test_a_wrong_spec_is_refused(spec: str) -> None:
    with pytest.raises(ChangefeedError, match="cron-spec"):
        Cron.parse(spec)


def test_only_folders_of_old_dates_count() -> None:
    limit = date(2026, 11, 10)

    assert is_older("test/t/1/2026-11-09/CDC1.csv", limit)
    assert not is_older("test/t/1/2026-11-10/CDC1.csv", limit)
    assert not is_older("test/t/meta/schema_1_0000000000.json", limit)
    assert not is_older("test/x2026-01-01/1/CDC1.csv", limit)


def test_old_rows_are_removed_and_schemas_are_kept(tmp_path: Path) -> None:
    clock = [DAY]
    settings = StorageSettings("unused", file_expiration_days=2, date_separator=DateSeparator.DAY, terminator="\n")
    store = open_storage(tmp_path)
    records = records_for("csv", settings, Options(), Resources())
    sink = StorageSink(store, records, settings, 1, today=lambda: clock[0])
    for day in (12, 13, 14, 16):
        clock[0] = DAY.replace(day=day, hour=1)
        sink.rows([insert(1, 2)])
        sink.flush()
    checkpoint = int(DAY.replace(tzinfo=timezone.utc).timestamp() * 1000) << 18

    sink.watermark(checkpoint, [])
    assert (tmp_path / "test/t/5/2026-11-12").is_dir()
    clock[0] = DAY.replace(hour=2)
    sink.watermark(checkpoint, [])

    assert sorted(path.name for path in (tmp_path / "test/t/5").iterdir()) == ["2026-11-14", "2026-11-16"]
    assert len(list((tmp_path / "test/t/meta").iterdir())) == 1

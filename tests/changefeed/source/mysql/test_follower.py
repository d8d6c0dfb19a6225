"""Events of a log as changes, also those only MySQL writes; the rows are packed by hand."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from datetime import timezone

import pytest

from changefeed.source.mysql.reading import ddls, rows
from tidewire.changefeed.source.base import Resolved, Upstream
from tidewire.changefeed.source.mysql.binlog import (
    Begin,
    BinlogEvent,
    Commit,
    Idle,
    Prepared,
    Query,
    Rotate,
    Rows,
    TableMap,
    WireColumn,
)
from tidewire.changefeed.source.mysql.follower import Follower
from tidewire.changefeed.source.mysql.position import Schemas, State, at_second, settled_before
from tidewire.changefeed.source.mysql.server import Server
from tidewire.changefeed.source.mysql.statements import Dialect
from tidewire.errors import ChangefeedError
from tidewire.model import TableName

SERVER = Server("here", mariadb=False, zone=timezone.utc)
DIALECT = Dialect(mariadb=False, reload=lambda name: None, wanted=lambda name: name.table != "unwanted")
MAP = TableMap(7, TableName("d", "t"), (WireColumn(3, name="id", unsigned=False), WireColumn(3, name="v")))
CREATE = Query("d", "CREATE TABLE t (id INT PRIMARY KEY, v INT)", 10, 50)


def start() -> Follower:
    """A follower with the table ``d.t``, at second 10."""
    state = State("log.000001", 4, "", 0, Schemas({}, {"": "utf8mb4_bin", "d": "utf8mb4_bin"}))
    follower = Follower(state, SERVER, DIALECT)
    follower.feed(CREATE)
    return follower


def inserted(*pairs: tuple[int, int]) -> Rows:
    return Rows(7, None, b"\x03", b"".join(b"\x00" + struct.pack("<ii", *pair) for pair in pairs))


def fed(follower: Follower, *events: BinlogEvent) -> list[Upstream]:
    return [given for event in events for given in follower.feed(event)]


def values(events: Iterable[Upstream]) -> list[tuple[object, object]]:
    return [(change.after["id"], change.after["v"]) for change in rows(events) if change.after]


def begin(gtid: str | None = None) -> list[BinlogEvent]:
    """How MySQL begins a transaction."""
    return [Begin(gtid, alone=True), Query("d", "BEGIN", 20, 60)]


def test_a_transaction_has_the_time_of_its_commit_and_a_place_behind_it() -> None:
    events = fed(start(), *begin("aaaa:1"), MAP, inserted((1, 2)), inserted((3, 4)), Commit(20, 90))

    assert values(events) == [(1, 2), (3, 4)]
    assert {change.commit_ts for change in rows(events)} == {at_second(20)}
    assert isinstance(events[-1], Resolved)
    place = events[-1].place
    assert (place["file"], place["position"], place["gtid"]) == ("log.000001", 90, "aaaa:1")


def test_nothing_is_given_before_a_group_is_complete_and_it_comes_again_after_a_break() -> None:
    follower = start()

    assert fed(follower, *begin(), MAP, inserted((1, 1))) == []
    follower.interrupted()
    events = fed(follower, *begin(), MAP, inserted((1, 1)), Commit(20, 90))

    assert values(events) == [(1, 1)]


def test_transactions_of_one_second_follow_each_other() -> None:
    follower = start()

    events = fed(
        follower, *begin(), MAP, inserted((1, 1)), Commit(20, 90), *begin(), MAP, inserted((2, 2)), Commit(19, 99)
    )

    assert [change.commit_ts for change in rows(events)] == [at_second(20), at_second(20) + 1]


def test_a_table_made_with_its_rows_comes_before_them() -> None:
    """MySQL logs CREATE TABLE ... SELECT as one group."""
    create = Query("d", "CREATE TABLE `u` (`id` int, `v` int) START TRANSACTION", 30, 95)
    other = TableMap(8, TableName("d", "u"), MAP.columns)

    events = fed(
        start(),
        Begin("aaaa:2", alone=True),
        create,
        other,
        Rows(8, None, b"\x03", inserted((1, 2)).data),
        Commit(30, 99),
    )

    assert [ddl.query for ddl in ddls(events)] == ["CREATE TABLE `u` (`id` int, `v` int)"]
    assert values(events) == [(1, 2)]
    assert (rows(events)[0].commit_ts or 0) > (ddls(events)[0].commit_ts or 0)
    assert [type(event).__name__ for event in events] == ["Ddl", "RowChange", "Resolved"]


def test_what_is_rolled_back_did_not_happen() -> None:
    follower = start()

    events = fed(
        follower,
        *begin(),
        MAP,
        inserted((1, 1)),
        Query("d", "SAVEPOINT `s`", 20, 70),
        inserted((2, 2)),
        Query("d", "ROLLBACK TO `s`", 20, 80),
        Commit(20, 90),
        *begin(),
        MAP,
        inserted((3, 3)),
        Query("d", "ROLLBACK", 20, 99),
    )

    assert values(events) == [(1, 1)]


def test_a_prepared_transaction_waits_and_is_not_lost_by_a_resume() -> None:
    follower = start()
    xid = "X'61',X'',1"
    prepare: list[BinlogEvent] = [
        Begin("aaaa:3", alone=True),
        Query("d", f"XA START {xid}", 20, 60),
        MAP,
        inserted((1, 1)),
        Prepared(xid, 70),
    ]
    between: list[BinlogEvent] = [*begin("aaaa:4"), MAP, inserted((2, 2)), Commit(21, 90)]
    commit: list[BinlogEvent] = [Begin("aaaa:5", alone=True), Query("d", f"XA COMMIT {xid}", 22, 120)]

    first = fed(follower, *prepare, *between)
    (place,) = [event.place for event in first if isinstance(event, Resolved)]
    resumed = Follower.resumed(json.loads(json.dumps(place)), SERVER, DIALECT)
    again = fed(resumed, *prepare, *between, *commit)

    assert values(first) == [(2, 2)]
    assert place["position"] == 50
    assert values(again) == [(1, 1)]
    assert fed(follower, *commit) == again


def test_a_prepared_transaction_that_is_rolled_back_is_forgotten() -> None:
    follower = start()
    xid = "X'61',X'',1"

    events = fed(
        follower,
        *begin(),
        MAP,
        inserted((1, 1)),
        Prepared(xid, 70),
        Begin(None, alone=True),
        Query("d", f"XA ROLLBACK {xid}", 22, 120),
    )

    assert values(events) == []
    assert follower.place["position"] == 120


def test_a_transaction_prepared_before_the_beginning_is_refused() -> None:
    with pytest.raises(ChangefeedError, match="X'62'"):
        fed(start(), Begin(None, alone=True), Query("d", "XA COMMIT X'62',X'',1", 22, 120))


def test_time_moves_with_groups_that_give_nothing_once_a_second() -> None:
    follower = start()
    unwanted = TableMap(9, TableName("d", "unwanted"), ())

    def group(seconds: int, end: int) -> list[BinlogEvent]:
        return [*begin(), unwanted, Rows(9, None, b"", b""), Commit(seconds, end)]

    events = fed(follower, *group(20, 90), *group(20, 100), *group(20, 110), *group(21, 120))

    assert [event.ts for event in events if isinstance(event, Resolved)] == [at_second(20), at_second(21)]


def test_silence_moves_time_but_never_back() -> None:
    follower = start()

    later = follower.quiet(settled_before(50))

    assert later.ts == at_second(50) - 1
    assert follower.quiet(0).ts == later.ts
    events = fed(follower, *begin(), MAP, inserted((1, 1)), Commit(50, 90))
    assert rows(events)[0].commit_ts == at_second(50)


def test_the_place_follows_the_files() -> None:
    follower = start()

    fed(follower, Rotate("log.000002", 4), Idle("log.000002", 300))

    assert (follower.place["file"], follower.place["position"]) == ("log.000002", 300)


def test_on_another_server_the_place_counts_from_the_first_group_on() -> None:
    follower = start()
    there = Server("there", mariadb=False, zone=timezone.utc)
    assert follower.is_elsewhere(there)

    follower.move_to(there)
    fed(follower, Rotate("other.000009", 4))
    before = follower.place
    fed(follower, *begin("aaaa:9"), MAP, inserted((1, 1)), Commit(20, 777))
    after = follower.place

    assert (before["server"], before["file"], before["position"]) == ("here", "log.000001", 50)
    assert (after["server"], after["file"], after["position"]) == ("there", "other.000009", 777)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ((MAP.columns[0],), "column 2, 'v', is missing"),
        ((*MAP.columns, WireColumn(3, name="w")), "column 3, w, is new"),
        ((MAP.columns[0], WireColumn(3, name="w")), "'v' is called 'w'"),
        ((MAP.columns[0], WireColumn(8, name="v")), "has type 8"),
        ((MAP.columns[0], WireColumn(3, name="v", unsigned=True)), "unsigned there"),
        ((MAP.columns[0], WireColumn(140, name="v")), "cannot be read"),
    ],
)
def test_a_table_that_is_another_one_is_refused(columns: tuple[WireColumn, ...], said: str) -> None:
    with pytest.raises(ChangefeedError, match=said):
        fed(start(), *begin(), TableMap(7, TableName("d", "t"), columns))


def test_a_hidden_column_behind_an_index_is_passed_over() -> None:
    hidden = TableMap(7, TableName("d", "t"), (*MAP.columns, WireColumn(8, name="DB_ROW_HASH_1")))
    data = b"\x00" + struct.pack("<iiq", 1, 2, 99)

    events = fed(start(), *begin(), hidden, Rows(7, None, b"\x07", data), Commit(20, 90))

    assert [change.after for change in rows(events)] == [{"id": 1, "v": 2}]


def test_an_image_that_lacks_a_column_is_refused() -> None:
    with pytest.raises(ChangefeedError, match="lacks 'v'; set binlog_row_image to FULL"):
        fed(start(), *begin(), MAP, Rows(7, None, b"\x01", b"\x00\x01\x00\x00\x00"))


def test_rows_of_a_table_nobody_knows_are_refused() -> None:
    with pytest.raises(ChangefeedError, match=r"rows of d\.nobody"):
        fed(start(), *begin(), TableMap(9, TableName("d", "nobody"), ()))

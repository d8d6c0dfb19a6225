"""Forms of Open Protocol that only the classic server, the new one, or old ones write are read."""

from __future__ import annotations

import pytest

from codec.open_protocol.open_messages import event_of, put, row_of, value_of
from tidewire.model import Ddl, Op, Row, TableName


def test_the_classic_servers_forms_decode() -> None:
    row = row_of(
        '{"u":{"a":{"t":1,"h":true,"f":11,"v":1},"aa":{"t":3,"f":65,"v":null}},"p":{"aa":{"t":3,"f":65,"v":5}}}',
        '{"ts":1,"scm":"test","tbl":"t","rid":-127,"ptn":9,"t":1}',
    )

    assert (row.row_id, row.partition_id, row.table_id) == (-127, 9, 9)
    assert (row.before, row.after) == ({"aa": 5}, {"a": 1, "aa": None})
    assert event_of('{"q":"CREATE DATABASE `x`","t":1}', '{"ts":1,"scm":"x","t":2}') == Ddl(
        TableName("x", ""), 1, "CREATE DATABASE `x`", 1
    )
    assert row_of('{"u":{"a":{"t":1,"v":1}},"p":{}}').op is Op.UPDATE
    assert row_of('{"u":{"a":{"t":1,"v":1}},"p":null,"d":null}').op is Op.INSERT


def test_of_two_marks_the_last_counts() -> None:
    value = '{"u":{"a":{"t":1,"h":true,"f":11,"v":1}}}'

    assert row_of(value, '{"ts":1,"t":1,"ohk":true}').handle_key_only
    assert not row_of(value, '{"ts":1,"t":1,"ohk":true,"ohk":false}').handle_key_only


def test_members_nobody_knows_are_ignored() -> None:
    row = row_of('{"x":[1],"u":{"a":{"t":1,"n":{},"v":1}}}', '{"new":{"a":[]},"ts":1,"t":1}')

    assert row.after == {"a": 1}


def test_without_flags_an_integer_may_be_unsigned() -> None:
    assert value_of('{"t":8,"v":18446744073709551615}') == 2**64 - 1
    assert value_of('{"t":8,"v":-9223372036854775808}') == -(2**63)


INT, TEXT = '"t":3,"f":65,"v":5', '"t":15,"f":64,"v":"x"'
NAMELESS: list[tuple[str, str, Row]] = [
    ("one", INT, {}),
    ("several", f"{INT},{TEXT},{TEXT}", {}),
    ("among named ones", f'{INT},"c":{{{INT}}},{TEXT}', {"c": 5}),
    ("beside a column called v", f'"v":{{{INT}}},{INT}', {"v": 5}),
    ("beside a column called t", f'{INT},"t":{{{INT}}}', {"t": 5}),
]


@pytest.mark.parametrize(("old", "expected"), [pytest.param(*case, id=name) for name, *case in NAMELESS])
def test_old_values_without_a_name_are_left_out_and_the_row_is_kept(old: str, expected: Row) -> None:
    """The new server writes them when a column becomes NULL in only-updated mode."""
    new = '{"b":{"t":3,"f":65,"v":null},"c":{"t":3,"f":65,"v":1},"d":{"t":15,"f":64,"v":null}}'

    row = row_of(put('{"u":%s,"p":{%s}}', new, old))

    assert row.op is Op.UPDATE
    assert row.before == expected

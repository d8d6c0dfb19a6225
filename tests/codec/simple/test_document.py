"""The document's Simple messages mean what it says and come out as they went in."""

from __future__ import annotations

from dataclasses import replace
from itertools import repeat

from codec.simple.simple_messages import DOCUMENT, JSON, message, user_schema
from tidewire.codec import Resources
from tidewire.codec.simple import Decoder, Encoder
from tidewire.model import Bootstrap, Ddl, DdlKind, Event, Row, RowChange, TableName, Watermark


def document_events() -> dict[str, Event]:
    decoder = Decoder()
    list(decoder.decode(message(DOCUMENT["schema"])))
    return {name: decoder.decode(message(wire))[0] for name, wire in DOCUMENT.items()}


def test_the_documents_messages_mean_what_it_says() -> None:
    events = document_events()

    user = user_schema()
    assert events["schema"] == Bootstrap(user)
    assert [(c.name, c.mysql_type, c.primary_key) for c in user.columns] == [
        ("id", "int(11)", True),
        ("name", "varchar(255)", False),
        ("age", "int(11)", False),
        ("score", "float", False),
    ]
    john: Row = {"id": 1, "name": "John Doe", "age": 25, "score": 90.5}
    assert events["insert"] == RowChange(user, 447984084414103554, after=john, table_id=148)
    assert events["update"] == RowChange(
        user, 447984099186180098, before=john, after={**john, "score": 95.0}, table_id=148
    )
    assert events["delete"] == RowChange(user, 447984114259722243, before={**john, "score": 95.0}, table_id=148)
    assert events["watermark"] == Watermark(447984124732375041)
    assert events["bootstrap"] == Bootstrap(replace(user, name=TableName("simple", "new_user")))
    alter = events["alter"]
    assert isinstance(alter, Ddl)
    assert (alter.table, alter.kind, alter.type, alter.commit_ts) == (
        TableName("simple", "user"),
        DdlKind.ALTER,
        None,
        447987408682614795,
    )
    assert alter.pre_table_schema == user
    assert alter.table_schema is not None
    assert alter.table_schema.column("createTime").mysql_type == "timestamp"


def test_the_documents_messages_come_out_as_they_went_in() -> None:
    for name, event in document_events().items():
        resources = Resources(clock=repeat(DOCUMENT[name]["buildTs"]).__next__)

        assert list(Encoder(JSON, resources).encode([event])) == [message(DOCUMENT[name])], name

"""Documents come back exactly, are small, and are refused if they are damaged or too new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewire.ddl.column_steps import GoneColumn, NamedColumn, NewColumn, PlacedColumn, TypedColumn
from tidewire.ddl.edits import ColumnPosition
from tidewire.errors import StateError
from tidewire.model import (
    Column,
    ColumnFlag,
    Ddl,
    DdlKind,
    Generated,
    Index,
    MySQLType,
    Position,
    TableName,
    TableSchema,
)
from tidewire.sync import documents
from tidewire.sync.documents import VERSION, decode, encode
from tidewire.sync.frontier import Frontier, Progress
from tidewire.sync.manifest import FoundDdl, Manifest, Parked, Partition, ReadRange, Rejected, StagedFile
from tidewire.sync.state import DdlId, Hold, HoldKind, Loss, PassedOver, Pending, State
from tidewire.sync.steps import Alter, Create, Drop, Merge, Rename, SetAside, Slice, Step, Truncate
from tidewire.sync.target_tables import TargetTable

NAMES = st.builds(TableName, st.text(max_size=3), st.text(max_size=3))
NUMBERS = st.integers(-(2**63), 2**64 - 1)
COLUMNS = st.builds(
    Column,
    st.text(max_size=3),
    st.sampled_from(MySQLType),
    st.none() | st.integers(0, 1023).map(ColumnFlag),
    *[st.booleans()] * 2,
    st.none() | st.booleans(),
    *[st.booleans()] * 2,
    *[st.none() | st.text(max_size=3)] * 2,
    *[st.none() | NUMBERS] * 2,
    st.lists(st.text(max_size=3), max_size=2).map(tuple),
    st.none() | st.sampled_from(Generated),
    st.none() | st.text(max_size=3) | st.binary(max_size=3),
    st.none() | NUMBERS,
)
SCHEMAS = st.builds(
    TableSchema,
    NAMES,
    st.lists(COLUMNS, max_size=2).map(tuple),
    st.lists(st.builds(Index, st.text(max_size=3), st.tuples(st.text(max_size=3))), max_size=2).map(tuple),
    st.none() | NUMBERS,
    st.none() | NUMBERS,
    st.booleans(),
)
PLACES = st.builds(Position, st.text(max_size=3), st.integers(0, 9), st.integers(0, 99))
PARTITIONS = st.builds(Partition, st.text(max_size=3), st.integers(0, 9))
FILES = st.builds(StagedFile, st.text(max_size=9), SCHEMAS, PARTITIONS, *[NUMBERS] * 5, st.booleans())
DDLS = st.builds(
    Ddl,
    NAMES,
    st.none() | NUMBERS,
    st.text(max_size=9),
    st.none() | st.integers(0, 99),
    st.none() | st.sampled_from(DdlKind),
    st.none() | NUMBERS,
    *[st.none() | SCHEMAS] * 2,
    st.none() | NAMES,
)
FOUND = st.builds(FoundDdl, PLACES, st.integers(0, 9), DDLS)
FILLS = st.none() | st.text(max_size=3) | st.binary(max_size=3)
SPOTS = st.builds(ColumnPosition, st.booleans(), st.none() | st.text(max_size=3))
CHANGES = st.one_of(
    st.builds(NewColumn, COLUMNS, SPOTS, FILLS),
    st.builds(GoneColumn, st.text(max_size=3)),
    st.builds(NamedColumn, st.text(max_size=3), st.text(max_size=3)),
    st.builds(TypedColumn, COLUMNS, COLUMNS),
    st.builds(PlacedColumn, st.text(max_size=3), SPOTS),
)
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.builds(
        Merge,
        SCHEMAS,
        st.lists(st.builds(Slice, FILES, NUMBERS, NUMBERS), max_size=2).map(tuple),
        NUMBERS,
        st.dictionaries(st.text(max_size=3), st.none() | st.text(max_size=3), max_size=2),
    ),
    st.builds(Create, SCHEMAS, NUMBERS),
    st.builds(Drop, NAMES, NUMBERS, st.booleans()),
    st.builds(Truncate, SCHEMAS, NUMBERS),
    st.builds(Rename, st.lists(st.tuples(NAMES, NAMES), max_size=2).map(tuple), NUMBERS),
    st.builds(Alter, SCHEMAS, SCHEMAS, st.lists(CHANGES, max_size=2).map(tuple), NUMBERS),
    st.builds(SetAside, st.lists(st.text(max_size=3), max_size=2).map(tuple)),
)
STATES = st.builds(
    State,
    st.text(max_size=3),
    *[NUMBERS] * 3,
    st.builds(
        Frontier,
        st.dictionaries(PARTITIONS, st.builds(Progress, st.none() | NUMBERS, *[NUMBERS] * 3), max_size=2),
        st.frozensets(st.text(max_size=3), max_size=2),
    ),
    st.dictionaries(NAMES, SCHEMAS, max_size=2),
    st.dictionaries(NAMES, NUMBERS, max_size=2),
    st.lists(st.builds(Pending, FILES, NUMBERS, NUMBERS), max_size=2).map(tuple),
    st.lists(FOUND, max_size=2).map(tuple),
    st.lists(st.builds(DdlId, NUMBERS, NAMES, st.text(max_size=3)), max_size=2).map(tuple),
    NUMBERS,
    st.lists(SCHEMAS, max_size=2).map(tuple),
    st.lists(st.builds(Parked, PLACES, NAMES, NUMBERS, NUMBERS, st.text(max_size=3)), max_size=2).map(tuple),
    st.lists(
        st.builds(
            Hold,
            NUMBERS,
            PLACES,
            st.text(max_size=3),
            st.none() | NAMES,
            st.sampled_from(HoldKind),
            st.text(max_size=3),
            NUMBERS,
            *[st.none() | NUMBERS] * 2,
            st.booleans(),
            st.none() | st.dictionaries(PARTITIONS, NUMBERS, max_size=2),
        ),
        max_size=2,
    ).map(tuple),
    NUMBERS,
    st.dictionaries(NAMES, st.none() | SCHEMAS.map(TargetTable.of), max_size=2),
    st.lists(SCHEMAS, max_size=2).map(tuple),
    st.lists(st.builds(PassedOver, PLACES, st.none() | NAMES), max_size=2).map(tuple),
    st.lists(
        st.builds(Loss, st.none() | NAMES, PLACES, NUMBERS, st.text(max_size=3), st.text(max_size=3)), max_size=2
    ).map(tuple),
    st.lists(PLACES, max_size=2).map(tuple),
)
MANIFESTS = st.builds(
    Manifest,
    NUMBERS,
    st.lists(FILES, max_size=2).map(tuple),
    st.dictionaries(
        PARTITIONS,
        st.tuples(st.builds(ReadRange, *[NUMBERS] * 4, st.tuples(st.tuples(NUMBERS, NUMBERS)))),
        max_size=2,
    ),
    st.dictionaries(PARTITIONS, NUMBERS, max_size=2),
    st.lists(FOUND, max_size=2).map(tuple),
    st.lists(SCHEMAS, max_size=2).map(tuple),
    st.just(()),
    st.lists(
        st.builds(Rejected, PLACES, st.text(max_size=3), NUMBERS, st.none() | NAMES, *[st.none() | NUMBERS] * 2),
        max_size=2,
    ).map(tuple),
    st.lists(st.text(max_size=3), max_size=2).map(tuple),
    st.lists(PLACES, max_size=2).map(tuple),
)


class Kept(msgspec.Struct, frozen=True):
    """A document of a Struct with steps in it."""

    steps: tuple[Step, ...]
    names: Mapping[TableName, tuple[str, int]] = {}


class Small(NamedTuple):
    """A document of one field."""

    value: str | bytes | None


@settings(max_examples=30, deadline=None)
@given(STATES)
def test_a_state_comes_back(state: State) -> None:
    assert decode(encode(state), State) == state


@settings(max_examples=30, deadline=None)
@given(MANIFESTS)
def test_a_manifest_comes_back(manifest: Manifest) -> None:
    assert decode(encode(manifest), Manifest) == manifest


@settings(max_examples=30, deadline=None)
@given(st.lists(STEPS, max_size=3))
def test_steps_come_back_with_their_ids(steps: list[Step]) -> None:
    kept = Kept(tuple(steps), {TableName("a", "b"): ("c", 1)})

    found = decode(encode(kept), Kept)

    assert found == kept
    assert [step.id for step in found.steps] == [step.id for step in kept.steps]


@settings(deadline=None)
@given(st.none() | st.text(max_size=3) | st.binary(max_size=3))
def test_texts_and_bytes_stay_what_they_are(value: str | bytes | None) -> None:
    assert decode(encode(Small(value)), Small) == Small(value)


def test_a_schema_is_written_once() -> None:
    schema = TableSchema(TableName("d", "t"), tuple(Column.of(f"column_{n}", "int") for n in range(50)))
    one = State("s", tables={schema.name: schema})
    both = State("s", tables={schema.name: schema}, schemas=(replace(schema),), kept=(schema,))

    found = decode(encode(both), State)

    assert len(encode(both)) < len(encode(one)) + 20
    assert found.kept[0] is found.tables[schema.name]


# What is refused


def sealed(*envelope: object) -> bytes:
    return bytes(pa.Codec("zstd").compress(msgspec.msgpack.encode(envelope), asbytes=True))


def test_a_newer_document_is_refused_by_name() -> None:
    data = sealed("State", VERSION + 1, "9.7.0", 0, b"")

    with pytest.raises(StateError, match=rf"written by tidewire 9.7.0 in version {VERSION + 1}.*reads .*{VERSION}"):
        decode(data, State)


def test_another_document_is_refused_by_name() -> None:
    with pytest.raises(StateError, match="this is a Small document, not a State document"):
        decode(encode(Small("x")), State)


def test_bytes_that_are_damaged_anywhere_are_refused() -> None:
    state = State("s", tables={TableName("d", "t"): TableSchema(TableName("d", "t"), (Column.of("id", "int"),))})
    data = encode(state)

    for place in range(len(data)):
        for damaged in (data[:place], data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]):
            try:
                assert decode(damaged, State) == state, place
            except StateError:
                continue


def test_a_document_without_the_newest_fields_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Before(NamedTuple):
        value: str | bytes | None

    class After(NamedTuple):
        value: str | bytes | None
        more: tuple[int, ...] = (7,)

    Before.__name__ = After.__name__ = "Kept"
    monkeypatch.setattr(documents, "VERSION", VERSION - 1)
    data = encode(Before("a"))
    monkeypatch.undo()

    assert decode(data, After) == After("a", (7,))


def test_what_cannot_be_kept_is_a_mistake_in_the_program() -> None:
    with pytest.raises(TypeError, match="cannot be part of a document"):
        encode(object())

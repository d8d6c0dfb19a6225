"""Syncs that commit the rows of all tables at once, by Iceberg's REST server and a proxy in front of it.

The server for tests checks all tables of a request before it changes one, but is not atomic against other writers. So
these tests show which requests are sent, which are refused, and what becomes of the tables.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

import tidewire.spark as tw
from integration.rest_catalog import drop_tables, rest_catalog
from object_stores import Answer, Request, http_server, send
from scripted import OPTIONS, Script, table
from spark.test_ledger_windows import EXPECTED, WINDOWS, Death, Dies, rows, script
from sync_checks import synced
from tidewire.cli.app import app
from tidewire.errors import Fenced
from tidewire.spark.apply.run import MOST_REFUSALS
from tidewire.spark.catalogs import spark_settings
from tidewire.spark.ledger import ledger_of, required_owner
from tidewire.spark.loop import Job, Point
from tidewire.spark.targets import CommitTag, IcebergTarget
from tidewire.spark.targets.iceberg_catalog import IcebergCatalog
from tidewire.spark.targets.iceberg_swap import STEP, swap
from tidewire.sync.catalog_settings import CatalogSettings
from tidewire.topic.files import FileTopics

pytestmark = [pytest.mark.slow, pytest.mark.integration]

TABLES = [table(name, id="int", v="varchar(20)") for name in "abcde"]
NAMES = {f"shop.{each.name.table}" for each in TABLES}
B = TABLES[1].name


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of a REST catalog."""
    with rest_catalog(str(tmp_path_factory.mktemp("warehouse"))) as uri:
        yield uri


@pytest.fixture
def server(rest: str) -> str:
    """The URI of a REST catalog, without the tables of tests before."""
    drop_tables(rest)
    return rest


@dataclass
class Watched:
    """A proxy in front of a catalog: ``meets`` answers requests for several tables, the server behind it all others."""

    catalog: CatalogSettings
    target: str
    meets: Callable[[Request], Answer | None]
    forward: Callable[[Request], Answer]
    together: list[set[str]] = field(default_factory=list)
    """The tables of each request for several tables."""
    alone: list[str] = field(default_factory=list)
    """The tables of requests for one table that change its rows."""

    def note(self, request: Request) -> bool:
        """Note what a request changes; is it one for several tables?"""
        if request.method != "POST":
            return False
        document, found = json.loads(request.body), re.search(r"/namespaces/(\w+)/tables/(\w+)$", request.target)
        if found is not None and any(map(_has_rows, document["updates"])):
            self.alone.append(f"{found[1]}.{found[2]}")
        is_together = request.target.endswith("/transactions/commit")
        if is_together:
            self.together.append({_name(each["identifier"]) for each in document["table-changes"]})
        return is_together

    @property
    def job(self) -> Job:
        """A sync through the proxy."""
        return Job("canal-json", OPTIONS, catalog=self.catalog, atomic=True)


def _name(identifier: Any) -> str:
    return ".".join((*identifier["namespace"], identifier["name"]))


def _has_rows(update: Any) -> bool:
    summary = update.get("snapshot", {}).get("summary", {})
    return "added-records" in summary or "added-delete-files" in summary


@contextmanager
def watched(server: str, folder: Path) -> Iterator[Watched]:
    """A proxy in front of a catalog, and a target for it."""

    def forward(request: Request) -> Answer:
        headers = {name: value for name, value in request.headers.items() if name.lower() != "connection"}
        return send(server, request._replace(headers=headers))

    def answer(request: Request) -> Answer | None:
        return made.meets(request) if made.note(request) else forward(request)

    with http_server(answer) as proxy:
        settings = {"type": "rest", "uri": proxy.endpoint}
        catalog = CatalogSettings(f"atomic_{uuid4().hex[:8]}", settings, settings)
        made = Watched(catalog, str(folder / "lake"), forward, forward)
        yield made


@pytest.fixture
def proxy(server: str, tmp_path: Path) -> Iterator[Watched]:
    with watched(server, tmp_path) as made:
        yield made


@pytest.fixture
def other(spark: SparkSession, server: str, tmp_path: Path) -> IcebergTarget:
    """Another program with the same catalog."""
    settings = CatalogSettings(f"other_{uuid4().hex[:8]}", {"type": "rest", "uri": server})
    return IcebergTarget(spark, tmp_path / "lake", spark_settings(settings, str(tmp_path / "lake")))


def begun(folder: Path) -> FileTopics:
    """Five tables with a row each."""
    made = Script()
    for each in TABLES:
        name = each.name.table
        made.ddl(name, f"CREATE TABLE `shop`.`{name}` (`id` INT PRIMARY KEY, `v` VARCHAR(20))")
        made.insert(each, id=1, v="first")
    made.watermark()
    return made.write(folder)


def changed(folder: Path) -> FileTopics:
    """Another row of each, and none of the first."""
    made = Script()
    made.ts += 1 << 40
    for each in TABLES:
        made.insert(each, id=2, v="second")
        made.delete(each, id=1, v="first")
    made.watermark()
    return made.write(folder)


SECOND = {name: [(2, "second")] for name in NAMES}


def steps(target: IcebergTarget) -> Counter[str]:
    """How often each step was committed."""
    found: Counter[str] = Counter()
    for name in target.names():
        known = target._catalog.table(name)
        assert known is not None
        summaries = [each["summary"] for each in known.metadata()["snapshots"]]
        found.update(f"{name} {each[STEP]}" for each in summaries if STEP in each and "tidewire.part" not in each)
    return found


def versions(target: IcebergTarget) -> dict[str, str]:
    return {str(each.name): target.version(each.name) for each in TABLES}


def test_one_request_has_the_rows_of_all_tables(spark: SparkSession, tmp_path: Path, proxy: Watched) -> None:
    topics = tmp_path / "topics"

    synced(spark, begun(topics), proxy.target, proxy.job)
    changed(topics)
    catalog = {"name": proxy.catalog.name, **proxy.catalog.settings}
    tw.Sync(f"file:{topics}", proxy.target, protocol="canal-json", catalog=catalog, atomic=True).run(spark)

    assert proxy.together == [NAMES, NAMES]
    assert proxy.alone == []
    assert rows(spark, proxy.target) == SECOND


def test_without_it_each_table_has_its_own_request(spark: SparkSession, tmp_path: Path, proxy: Watched) -> None:
    job = Job("canal-json", OPTIONS, catalog=proxy.catalog)

    synced(spark, begun(tmp_path / "topics"), proxy.target, job)

    assert proxy.together == []
    assert set(proxy.alone) == NAMES


def test_ddl_is_outside_and_the_rows_around_it_are_inside(spark: SparkSession, tmp_path: Path, proxy: Watched) -> None:
    synced(spark, script(tmp_path / "topics"), proxy.target, proxy.job)

    assert proxy.together[0] == {"shop.a", "shop.b"}
    assert proxy.alone == []
    assert rows(spark, proxy.target) == EXPECTED


@pytest.mark.parametrize("answer", ["lost", "not done"])
def test_after_an_answer_that_says_nothing_no_step_is_done_twice(
    spark: SparkSession, tmp_path: Path, proxy: Watched, other: IcebergTarget, answer: str
) -> None:
    topics, forward = tmp_path / "topics", proxy.forward
    synced(spark, begun(topics), proxy.target, proxy.job)

    def meets(request: Request) -> Answer | None:
        proxy.meets = forward
        if answer == "lost":
            forward(request)
            return None
        return Answer(500, {}, b"<html>")

    proxy.meets = meets
    synced(spark, changed(topics), proxy.target, proxy.job)

    assert proxy.together == [NAMES] * (2 if answer == "lost" else 3)
    assert proxy.alone == []
    assert rows(spark, proxy.target) == SECOND
    assert set(steps(other).values()) == {1}


def test_a_server_that_holds_its_answer_is_given_up_and_its_commits_are_found(
    spark: SparkSession, tmp_path: Path, proxy: Watched, other: IcebergTarget
) -> None:
    settings = {**proxy.catalog.settings, "rest.client.socket-timeout-ms": "3000"}
    proxy.catalog = CatalogSettings(proxy.catalog.name, settings, settings)
    topics, forward, over = tmp_path / "topics", proxy.forward, threading.Event()
    synced(spark, begun(topics), proxy.target, proxy.job)

    def meets(request: Request) -> Answer | None:
        proxy.meets = forward
        forward(request)
        over.wait()
        return None

    proxy.meets = meets
    try:
        synced(spark, changed(topics), proxy.target, proxy.job)
    finally:
        over.set()

    assert rows(spark, proxy.target) == SECOND
    assert set(steps(other).values()) == {1}


def test_a_table_that_others_change_refuses_all_until_it_is_committed_alone(
    spark: SparkSession, tmp_path: Path, proxy: Watched, other: IcebergTarget
) -> None:
    topics, forward = tmp_path / "topics", proxy.forward
    synced(spark, begun(topics), proxy.target, proxy.job)
    before = versions(other)
    met: list[tuple[int | None, set[str]]] = []

    def meets(request: Request) -> Answer | None:
        if len(met) < MOST_REFUSALS:
            swap(other._catalog, B, None)
        answer = forward(request)
        now = versions(other)
        met.append((answer.status, {name for name in NAMES if now[name] != before[name]}))
        return answer

    proxy.meets = meets
    synced(spark, changed(topics), proxy.target, proxy.job)

    assert met[:MOST_REFUSALS] == [(409, {str(B)})] * MOST_REFUSALS
    assert proxy.together[1:] == [NAMES] * MOST_REFUSALS + [NAMES - {str(B)}]
    assert proxy.alone == [str(B)]
    assert rows(spark, proxy.target) == SECOND
    assert set(steps(other).values()) == {1}


def test_a_table_that_another_program_dropped_is_held_and_the_others_go_on(
    spark: SparkSession, tmp_path: Path, proxy: Watched, other: IcebergTarget
) -> None:
    topics, forward = tmp_path / "topics", proxy.forward
    synced(spark, begun(topics), proxy.target, proxy.job)

    def meets(request: Request) -> Answer | None:
        proxy.meets = forward
        other._catalog.forget(B)
        return forward(request)

    proxy.meets = meets
    state = synced(spark, changed(topics), proxy.target, proxy.job)

    assert [hold.table for hold in state.holds] == [B]
    assert proxy.together[1:] == [NAMES, NAMES - {str(B)}]
    assert set(steps(other).values()) == {1}
    for each in TABLES:
        if each.name != B:
            assert [tuple(row) for row in other.read(each.name).collect()] == [(2, "second")]


def test_a_driver_that_one_table_is_fenced_against_changes_no_table(
    spark: SparkSession, tmp_path: Path, proxy: Watched, other: IcebergTarget
) -> None:
    topics, forward = tmp_path / "topics", proxy.forward
    synced(spark, begun(topics), proxy.target, proxy.job)
    before, fenced = versions(other), list[str]()

    def meets(request: Request) -> Answer | None:
        sync = required_owner(ledger_of(proxy.target)).id
        other.fence(B, CommitTag(sync, 99, 99, "fence"))
        fenced.append(other.version(B))
        return forward(request)

    proxy.meets = meets
    with pytest.raises(Fenced, match=r"epoch 99 has taken over shop\.b"):
        synced(spark, changed(topics), proxy.target, proxy.job)

    assert proxy.together == [NAMES, NAMES]
    assert versions(other) == before | {str(B): fenced[0]}


def test_an_older_driver_that_wakes_up_before_the_request_is_refused(
    spark: SparkSession, tmp_path: Path, proxy: Watched, other: IcebergTarget
) -> None:
    topics, forward, statuses = tmp_path / "topics", proxy.forward, list[int]()
    synced(spark, begun(topics), proxy.target, proxy.job)
    changed(topics)

    def meets(request: Request) -> Answer | None:
        proxy.meets = forward
        synced(spark, FileTopics(topics), proxy.target, proxy.job, take_over=True)
        answer = forward(request)
        statuses.append(answer.status)
        return answer

    proxy.meets = meets
    with suppress(Fenced):  # or it finds that its steps are done
        synced(spark, FileTopics(topics), proxy.target, proxy.job)

    assert statuses == [409]
    assert rows(spark, proxy.target) == SECOND
    assert set(steps(other).values()) == {1}


class Killed(BaseException):
    """The driver dies."""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_driver_that_dies_at_the_request_leaves_what_the_next_one_puts_right(
    spark: SparkSession,
    tmp_path: Path,
    proxy: Watched,
    other: IcebergTarget,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
) -> None:
    topics, commit = tmp_path / "topics", IcebergCatalog.commit_together
    synced(spark, begun(topics), proxy.target, proxy.job)
    changed(topics)

    def dies(self: IcebergCatalog, commits: Any) -> None:
        if when == "after":
            commit(self, commits)
        raise Killed

    monkeypatch.setattr(IcebergCatalog, "commit_together", dies)
    with pytest.raises(Killed):
        synced(spark, FileTopics(topics), proxy.target, proxy.job)
    monkeypatch.undo()
    state = synced(spark, FileTopics(topics), proxy.target, proxy.job)

    assert not state.holds
    assert proxy.together == [NAMES, NAMES]
    assert proxy.alone == []
    assert rows(spark, proxy.target) == SECOND
    assert set(steps(other).values()) == {1}


_EACH_RUN = ((Point.STEP, 4),)


@pytest.mark.parametrize(
    ("point", "times"),
    [
        pytest.param(*each.values, id=str(each.id), marks=() if each.values in _EACH_RUN else pytest.mark.stores)
        for each in WINDOWS
    ],
)
def test_a_driver_that_dies_anywhere_leaves_what_the_next_one_puts_right(
    spark: SparkSession, tmp_path: Path, proxy: Watched, other: IcebergTarget, point: Point, times: int
) -> None:
    topics = script(tmp_path / "topics")

    with pytest.raises(Death):
        synced(spark, topics, proxy.target, proxy.job, Dies(point, times))
    state = synced(spark, topics, proxy.target, proxy.job)

    assert rows(spark, proxy.target) == EXPECTED
    assert set(steps(other).values()) == {1}
    assert proxy.alone == []
    assert not state.holds


def test_a_server_that_does_not_list_the_endpoint_is_refused_at_the_start(
    spark: SparkSession, tmp_path: Path, server: str
) -> None:
    begun(tmp_path / "topics")

    def answer(request: Request) -> Answer | None:
        found = send(server, request)
        if not request.target.startswith("/v1/config"):
            return found
        document = json.loads(found.body)
        listed = [each for each in document["endpoints"] if not each.endswith("transactions/commit")]
        assert len(listed) == len(document["endpoints"]) - 1
        return Answer(200, found.headers, json.dumps(document | {"endpoints": listed}).encode())

    with http_server(answer) as lacking:
        config, name = tmp_path / "sync.toml", f"lake_{uuid4().hex[:8]}"
        config.write_text(f'atomic = true\n[catalog.{name}]\ntype = "rest"\nuri = "{lacking.endpoint}"\n')
        arguments = ["sync", f"file://{tmp_path}/topics", str(tmp_path / "lake"), "-p", "canal-json", "--once"]

        done = CliRunner().invoke(app, [*arguments, "--config", str(config)])

    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        f"Error: option atomic: the catalog {name} cannot commit to several tables at once: its server does not list "
        "the endpoint POST /v1/{prefix}/transactions/commit; leave --atomic out"
    ]
    assert not load_catalog("rest", type="rest", uri=server).list_tables("shop")

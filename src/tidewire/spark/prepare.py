"""Completes and checks the settings of a sync before Spark is started or used.

The source is opened and its first messages are looked at: they tell what the options leave open, and whether the
protocol reads them. What cannot be done is refused here, in one line that says what to give instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from typing import Final
from urllib.parse import urlencode

from pyspark.sql import SparkSession

from tidewire.codec import SYNC_PROTOCOLS, Options
from tidewire.errors import OptionError, SyncError
from tidewire.kafka.uri import SCHEMES, KafkaAddress, parameters_of
from tidewire.spark.apply import Mode
from tidewire.spark.catalogs import check_catalog, needed_jars
from tidewire.spark.job import FORMAT_VERSION, Job
from tidewire.spark.ledger import ledger_of, refuse_other_sync
from tidewire.spark.loop import Loop
from tidewire.spark.maintain import Every, parse_age
from tidewire.spark.report import Observer
from tidewire.spark.requirements import check_session
from tidewire.spark.services import check_catalog_answers
from tidewire.spark.sessions import own_session
from tidewire.spark.source import Source, StorageForm, open_source
from tidewire.spark.source.detect import check_readable, completed, has_watermarks
from tidewire.spark.source.storage_sink import (
    CSV,
    StorageSource,
    codec_parameters,
    is_storage,
    sink_parameters,
    store_uri,
)
from tidewire.spark.staging import check_staging
from tidewire.spark.targets import Target, close_target, open_target
from tidewire.storage import open_storage, store_kind
from tidewire.sync.config import SyncConfig
from tidewire.sync.state import OnBad, State

_ALIASES: Final = {"default": "open-protocol", "flat-avro": "avro"}
_SAMPLE: Final = 20

_LIMITS: Final[Mapping[str, str]] = {
    "avro": "note: Avro carries no DDL and no watermarks. Rows are applied in offset order, the tables are never "
    "called consistent, and TRUNCATE, DROP, RENAME and the defaults of new columns go unseen.",
    "csv": "note: without include-commit-ts no row tells when it was committed. Rows and DDL are applied in the order "
    "of the files, the tables are never called consistent, and files must not be written again.",
    "canal-json": "note: without enable-tidb-extension there are no watermarks. Rows and DDL are applied in offset "
    "order, and the tables are never called consistent.",
}


class Prepared:
    """A sync that is ready to begin: its source is open and its settings are checked. It is closed after use.

    ``notes`` say what cannot be promised.
    """

    def __init__(self, config: SyncConfig, source: Source, job: Job, notes: tuple[str, ...]) -> None:
        self._config = config
        self._source = source
        self.job = job
        self.notes = notes

    @contextmanager
    def loop(self, spark: SparkSession, observer: Observer) -> Iterator[Loop]:
        """The loop that does it, in a session of its own on the given one's Spark, which is not changed."""
        with opened(spark, self._config.target or "", self.job) as (own, target):
            yield Loop(own, self._source, target, self.job, observer)

    @property
    def needed_jars(self) -> tuple[str, ...]:
        """The sets of jars that the target needs."""
        return needed_jars(self._config.target or "", self.job.catalog)

    def close(self) -> None:
        """Close the source's connections."""
        self._source.close()


def prepared(config: SyncConfig, *, take_over: bool = False) -> Prepared:
    """Open the source of a sync and check all that can be checked without Spark; errors say what to do."""
    place, protocol = place_and_protocol(config)
    asked = job_of(config, protocol)
    every = Every.parse(config.maintain_every or "100b")
    patience = parse_age(config.patience or "5m", "patience").total_seconds()
    form, given = _form(place, protocol, config.option)
    Options.parse(given)
    source = open_source(place, form)
    try:
        options, timed = _read_off(source, protocol, given)
        job = replace(
            asked,
            options=options,
            has_watermarks=timed,
            until=config.until,
            maintain=every,
            patience=patience,
            atomic=bool(config.atomic),
        )
        notes = _limits(job, source)
        refuse_other_sync(ledger_of(config.target or ""), job.owner(source), take_over=take_over)
        check_folder(config.target or "")
        check_catalog_answers(job.catalog)
    except BaseException:
        source.close()
        raise
    return Prepared(config, source, job, notes)


def _form(place: str, protocol: str, options: Mapping[str, str]) -> tuple[StorageForm | None, Mapping[str, str]]:
    """The form of a storage sink's files, and the options that are the codec's; no form if the source has topics."""
    if not is_storage(place) and protocol != CSV:
        return None, options
    store = open_storage(store_uri(place), "source")
    return StorageForm.parse(protocol, store, codec_parameters(place) | dict(options))


def _read_off(source: Source, protocol: str, given: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """The options with those that the first messages tell, and whether messages have commit ts and watermarks."""
    sample = source.sample(_SAMPLE)
    if protocol == CSV and isinstance(source, StorageSource):
        source.form.check_readable(sample)
        options, timed = dict(given), source.form.csv.include_commit_ts
    else:
        options = completed(protocol, dict(source.options) | dict(given), sample)
        check_readable(protocol, options, sample)
        timed = has_watermarks(protocol, options)
    if isinstance(source, StorageSource):
        source.knows_replays = timed
    return options, timed


def job_of(config: SyncConfig, protocol: str = "") -> Job:
    """What settings say of a target and its tables, checked. Sync and load add what only one of them has."""
    uri, format_ = config.target or "", config.target_format or "iceberg"
    catalog = config.catalog_named(config.catalog)
    check_catalog(uri, format_, catalog)
    check_staging(uri, config.staging)
    return Job(
        protocol,
        mode=Mode(config.mode or "mirror"),
        format_version=config.format_version or FORMAT_VERSION,
        format=format_,
        catalog=catalog,
        on_bad=OnBad(config.on_bad_message or "hold"),
        parallel=config.parallel or 4,
        rules=config.rules,
        keep_rejected=config.keep_rejected_bytes is not False,
        staging=config.staging,
    )


def check_folder(target: str) -> None:
    """Refuse a target on a local disk whose folder cannot be made or written. Nothing is made yet."""
    folder = open_storage(target).local
    if folder is None:
        return
    place = next(each for each in (folder, *folder.parents) if os.access(each, os.F_OK))
    if not place.is_dir():
        raise OptionError("target", f"{folder} cannot be made, because {place} is a file: give another folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise OptionError("target", f"this user may not write to {place}: give another folder, or change its rights")


@contextmanager
def opened(spark: SparkSession, uri: str, job: Job) -> Iterator[tuple[SparkSession, Target]]:
    """A job's target, and a session of its own on the given one's Spark, which is not changed."""
    check_session(spark, job.format, embedded=job.catalog is None, jars=needed_jars(uri, job.catalog))
    with own_session(spark) as own:
        target = open_target(own, uri, job.format, job.catalog, job.format_version)
        try:
            yield own, target
        finally:
            close_target(own, target)


def driven(loop: Loop, observer: Observer, *, once: bool, take_over: bool) -> State | None:
    """Run a loop until it ends or is stopped; the state then, ``None`` if it was stopped while it waited."""
    try:
        return loop.run(once=once, take_over=take_over)
    except SyncError as error:
        if not (loop.is_stopping and getattr(error.__cause__, "transient", False)):
            raise
        observer.note(f"stopped while waiting: {error.__cause__}")
        return None


def place_and_protocol(config: SyncConfig) -> tuple[str, str]:
    """The source's URI with all its parameters, and the protocol, which the URI or the sync names."""
    place = _place(config)
    return place, _protocol(place, config.protocol)


def _place(config: SyncConfig) -> str:
    source = config.source or ""
    limit = config.max_offsets_per_batch
    given = dict(config.parameters) | ({} if limit is None else {"max-offsets-per-batch": str(limit)})
    if not source.startswith(SCHEMES):
        _check_scheme(source)
        if given:
            raise OptionError(f"source.{next(iter(given))}", "only a Kafka source has it")
        return source
    base, _, query = source.partition("?")
    named = [pair for pair in query.split("&") if pair and pair.partition("=")[0] not in given]
    place = "?".join(filter(None, [base, "&".join([*named, *([urlencode(given)] if given else [])])]))
    KafkaAddress.parse(place)
    return place


def _check_scheme(source: str) -> None:
    scheme = source.partition(":")[0]
    if scheme != "file" and not store_kind(source):
        near = get_close_matches(scheme, ("kafka", "kafka+ssl", "file", "s3"), n=1)
        advice = f"; did you mean {near[0]}?" if near else ""
        raise OptionError(
            "source", f"{source!r} is neither kafka://host:port/topic nor file:FOLDER nor s3://bucket/prefix{advice}"
        )


def _protocol(place: str, given: str | None) -> str:
    """The protocol that is given, or that of the URI; they must not contradict each other."""
    kafka = place.startswith(SCHEMES)
    text = (parameters_of(place.partition("?")[2]) if kafka else sink_parameters(place)).get("protocol")
    found = None if text is None else _ALIASES.get(text.lower(), text.lower())
    if found is not None and found not in SYNC_PROTOCOLS:
        raise OptionError(
            "protocol", f"the URI of the source says {text}, which is not one of {', '.join(SYNC_PROTOCOLS)}"
        )
    if given is not None and found is not None and given != found:
        raise OptionError("protocol", f"the URI of the source says {found}, but {given} is given; give one of them")
    protocol = given or found
    if protocol is None:
        raise OptionError("protocol", f"neither the sync nor its source says which one: {', '.join(SYNC_PROTOCOLS)}")
    return protocol


def _limits(job: Job, source: Source) -> tuple[str, ...]:
    """Refuse what cannot be done without commit ts and watermarks, and say what cannot be promised."""
    if job.has_watermarks:
        return ()
    if job.until is not None:
        raise OptionError(
            "until", f"{job.protocol} has no watermarks here, so the sync cannot stop at a TSO; leave it out"
        )
    partitions = len(source.partitions())
    if job.protocol == "canal-json" and partitions > 1:
        raise SyncError(
            f"Canal-JSON without enable-tidb-extension has no order between its {partitions} partitions: "
            "turn the extension on, or use topics of one partition"
        )
    return (_LIMITS[job.protocol],)

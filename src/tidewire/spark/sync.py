"""``tw.Sync``: topics into tables, in the caller's Spark session."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidewire.codec import SYNC_PROTOCOLS
from tidewire.errors import OptionError
from tidewire.spark.frames.executors import check_executors
from tidewire.spark.requirements import check_session
from tidewire.sync.config import SyncConfig, config_of, read_config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidewire.spark.prepare import Prepared
    from tidewire.spark.report import PassReport, Point
    from tidewire.spark.running import RunningSync
    from tidewire.sync.state import Hold, State

_LOG: Final = logging.getLogger("tidewire.sync")
_RULES: Final = ("include", "exclude", "tables", "ddl", "mask")


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The result of a sync.

    ``ts`` is the TSO that the tables are complete up to; ``None`` if the protocol has no watermarks. ``rows`` says how
    many rows each table has that this run changed, as far as that is known. ``holds`` are the holds of tables, and
    ``rejects`` counts the messages that could not be read, of all runs.
    """

    ts: int | None
    rows: Mapping[str, int] = field(default_factory=dict)
    holds: tuple[Hold, ...] = ()
    rejects: int = 0


class Recorder:
    """Keeps the last report of a sync, and passes reports on to the caller."""

    def __init__(self, on_report: Callable[[PassReport], None] | None = None) -> None:
        self._on_report = on_report
        self.last_report: PassReport | None = None
        self.said = ""
        self._rows: dict[str, int] = {}

    def reached(self, point: Point) -> None:
        """A pass came to a point."""

    def note(self, line: str) -> None:
        """There is something to say to people."""
        self.said = line
        _LOG.info(line)

    def finished(self, report: PassReport) -> None:
        """A pass is done. If ``on_report`` raises an error, the error is logged and the sync goes on."""
        self.last_report = report
        self._rows.update({str(name): count for name, count in report.rows.items()})
        if self._on_report is not None:
            try:
                self._on_report(report)
            except Exception:
                _LOG.exception("on_report failed")

    def result(self, state: State | None, has_watermarks: bool) -> SyncResult:
        """The result of the sync, from its state or, without one, from the last report."""
        if state is not None:
            return SyncResult(state.applied if has_watermarks else None, dict(self._rows), state.holds, state.rejected)
        last = self.last_report
        if last is None:
            return SyncResult(None)
        ts = last.applied if has_watermarks else None
        return SyncResult(ts, dict(self._rows), last.holds, last.rejected_total)


class Sync:
    """A sync of topics into tables: what ``tidewire sync`` does, in the caller's Spark session.

    ``source`` is ``kafka://host:port/topic``, ``file:FOLDER``, or ``s3://bucket/prefix`` with the files of a storage
    sink; a mapping has the parameters of Kafka beside its ``uri``. ``target`` is the folder of the tables. ``catalog``
    says what ``[catalog.NAME]`` says in the TOML file, such as ``{"name": "lake", "type": "rest", "uri": …}``, and
    ``options`` what ``[option]`` says. ``rules`` are rules about tables: patterns such as ``shop.*`` and
    ``!shop.tmp_*``, or a mapping with ``include``, ``exclude``, ``tables``, ``ddl`` and ``mask`` as in the file.
    Arguments that are left out have the defaults of the command line.

    Nothing is read or started before :meth:`run` or :meth:`start`; mistakes in what is given are raised at once.
    """

    def __init__(
        self,
        source: str | Mapping[str, Any],
        target: str | os.PathLike[str],
        *,
        protocol: str | None = None,
        format: str = "iceberg",
        catalog: Mapping[str, Any] | None = None,
        mode: str = "mirror",
        on_bad: str = "hold",
        options: Mapping[str, Any] | None = None,
        rules: str | Iterable[str] | Mapping[str, Any] = (),
        until: int | None = None,
        format_version: int | None = None,
        parallel: int | None = None,
        atomic: bool | None = None,
        maintain_every: str | None = None,
        patience: str | None = None,
        keep_rejected_bytes: bool | None = None,
        staging: str | None = None,
        max_offsets_per_batch: int | None = None,
    ) -> None:
        document = {
            "source": source,
            **_target(os.fspath(target), format, catalog),
            "protocol": protocol,
            "mode": mode,
            "on-bad-message": on_bad,
            "option": dict(options or {}),
            "until": until,
            "format-version": format_version,
            "parallel": parallel,
            "atomic": atomic,
            "maintain-every": maintain_every,
            "patience": patience,
            "keep-rejected-bytes": keep_rejected_bytes,
            "staging": staging,
            "max-offsets-per-batch": max_offsets_per_batch,
            **_rules(rules),
        }
        given = {name: value for name, value in document.items() if value is not None}
        self._config = _checked(config_of(given, None, list(SYNC_PROTOCOLS)))

    @classmethod
    def of(cls, config: SyncConfig) -> Sync:
        """The sync that parsed settings describe."""
        sync = cls.__new__(cls)
        sync._config = _checked(config)
        return sync

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Sync:
        """The sync that a file describes, as ``tidewire sync --config`` reads it.

        ``once``, ``master`` and ``[spark]`` are for the command line, and are ignored here.
        """
        return cls.of(read_config(Path(path).read_text(encoding="utf-8"), os.environ, list(SYNC_PROTOCOLS)))

    def __repr__(self) -> str:
        config = self._config
        return f"Sync({config.secrets.hide(f'{config.source!r}, {config.target!r}')})"

    def run(
        self,
        spark: SparkSession,
        once: bool = True,
        *,
        take_over: bool = False,
        on_report: Callable[[PassReport], None] | None = None,
    ) -> SyncResult:
        """Sync everything that is in the source now, and return the result; with ``once=False``, run until an error.

        The session's settings are left as they are. ``take_over`` replaces a driver that runs somewhere else, and
        ``on_report`` is called after each pass.
        """
        recorder, ready = Recorder(on_report), self.prepared(spark, take_over=take_over)
        from tidewire.spark.prepare import driven

        with closing(ready), ready.loop(spark, recorder) as loop:
            for note in ready.notes:
                recorder.note(note)
            state = driven(loop, recorder, once=once, take_over=take_over)
        return recorder.result(state, ready.job.has_watermarks)

    def start(
        self,
        spark: SparkSession,
        on_report: Callable[[PassReport], None] | None = None,
        *,
        once: bool = False,
        take_over: bool = False,
    ) -> RunningSync:
        """Start the sync in a thread and return its handle. Errors that are found before it begins are raised here."""
        ready = self.prepared(spark, take_over=take_over)
        from tidewire.spark.running import RunningSync

        return RunningSync(ready, spark, Recorder(on_report), once=once, take_over=take_over)

    def prepared(self, spark: SparkSession | None = None, *, take_over: bool = False) -> Prepared:
        """Check the session, if one is given, and the source; :meth:`run` and :meth:`start` begin with the result."""
        config = self._config
        if spark is not None:
            check_session(spark, config.target_format or "iceberg", embedded=not config.catalogs)
            check_executors(spark)
        from tidewire.spark.prepare import prepared

        return prepared(config, take_over=take_over)


def _checked(config: SyncConfig) -> SyncConfig:
    for name in ("source", "target"):
        if not getattr(config, name):
            raise OptionError(name, "a sync needs one")
    return config


def _target(uri: str, format_: str, catalog: Mapping[str, Any] | None) -> dict[str, Any]:
    """Target and catalog as the file has them."""
    target = {"uri": uri, "format": format_}
    if not catalog:
        return {"target": target}
    settings = dict(catalog)
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise OptionError("catalog.name", "a catalog needs a name")
    return {"target": target | {"catalog": name}, "catalog": {name: settings}}


def _rules(given: str | Iterable[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Rules about tables as the file has them."""
    if not isinstance(given, Mapping):
        return {"tables": [given] if isinstance(given, str) else list(given)}
    unknown = [name for name in given if name not in _RULES]
    if unknown:
        raise OptionError(f"rules.{unknown[0]}", f"known are {', '.join(_RULES)}")
    return dict(given)

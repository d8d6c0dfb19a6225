"""``tw.TicdcSource``: Spark's Python data source ``ticdc``, from Spark 4.0 on.

It reads the places a sync reads, Kafka and topics in files, with the columns of ``tw.decode``. Spark starts a Python
process for planning and one for each task; both get the options only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tidewire.codec import PROTOCOLS
from tidewire.errors import MissingExtra, OptionError
from tidewire.kafka.uri import SCHEMES, KafkaAddress
from tidewire.spark.frames.decode import COLUMNS, SCHEMA, chosen, reading, rules
from tidewire.spark.source.base import Extent, OffsetRange, planned_ranges
from tidewire.sync.manifest import Partition
from tidewire.sync.toml_section import filled

if TYPE_CHECKING:
    import pyarrow as pa

    from tidewire.spark.source import Source

try:
    import pyspark
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
except ModuleNotFoundError as error:
    if (error.name or "") == "pyspark":
        raise MissingExtra("pyspark", "spark") from error
    raise OptionError(
        "format", "Python data sources need Spark 4.0; tw.decode reads Spark's own Kafka source"
    ) from error

try:
    _limiting: Any = import_module("pyspark.sql.streaming.datasource")
except ModuleNotFoundError:  # Spark before 4.2 always asks a source for everything that there is
    _limiting = None
_AvailableNow: Any = object if _limiting is None else _limiting.SupportsTriggerAvailableNow

_OWN: Final = ("source", "path", "protocol", "tables", "values", "before", "on_bad", "keep_bytes", "schemas")
_LIMIT: Final = "max_messages"
_LIMITS: Final = (_LIMIT, "maxoffsetspertrigger", "maxrowsperbatch", "maxrecordsperbatch", "maxbytesperbatch")
_TRUTH: Final = {"true": True, "false": False}
_NO_LIMIT: Final = 1 << 62


@dataclass
class MessageRange(InputPartition):
    """What one task reads."""

    topic: str
    number: int
    start: int
    end: int

    @property
    def range(self) -> OffsetRange:
        """The same, as sources take it."""
        return OffsetRange(Partition(self.topic, self.number), self.start, self.end)


class TicdcSource(DataSource):
    """Messages of a place as changes: ``spark.read.format("ticdc")`` and ``spark.readStream.format("ticdc")``.

    Options are ``source`` (``kafka://host:port/topic`` or ``file:FOLDER``; also the argument of ``load``),
    ``protocol``, and ``tables``, ``before``, ``on_bad``, ``keep_bytes`` and ``schemas`` as :func:`tw.decode` has them.
    Every other option is one of TiCDC's, by TiCDC's name. ``${NAME}`` in an option is a variable of the environment of
    Spark's driver, for what is secret. ``max_messages`` limits a batch of a stream; it needs Spark
    4.2. ``before`` and ``after`` are JSON text, because a Python data source cannot give VARIANT; ``parse_json`` makes
    it one.
    """

    @classmethod
    def name(cls) -> str:
        """What it is called in ``format``."""
        return "ticdc"

    def schema(self) -> str:
        """The columns of ``tw.decode``."""
        self._settings()
        return SCHEMA.format(image="string")

    def reader(self, schema: Any) -> DataSourceReader:
        """What reads a batch: all that there is now."""
        if _LIMIT in _names(self.options):
            raise OptionError(_LIMIT, "it limits the batches of a stream; spark.read reads all that there is")
        _check_schema(schema)
        return Batch(self._place(), self._settings())

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """What reads a stream, from the first message on."""
        _check_schema(schema)
        return Stream(self._place(), self._settings(), self._limit())

    def _place(self) -> str:
        given = _names(self.options)
        place = given.get("source") or given.get("path")
        if not place:
            raise OptionError("source", "it is missing; give kafka://host:port/topic or file:FOLDER, also as load(…)")
        return place

    def _settings(self) -> dict[str, Any]:
        """The settings of ``decode``'s task, checked."""
        given = _names(self.options)
        if not given.get("protocol"):
            raise OptionError("protocol", f"it is missing; give one of {', '.join(PROTOCOLS)}")
        if chosen("values", given.get("values", "json"), ("variant", "json")) == "variant":
            raise OptionError(
                "values", "a Python data source cannot give VARIANT; take JSON text and parse_json(after)"
            )
        for name in _LIMITS:
            if name in given and (name != _LIMIT or _limiting is None):
                raise OptionError(name, _refusal(name))
        place = self._place()
        codec = dict(KafkaAddress.parse(place).options) if place.startswith(SCHEMES) else {}
        codec |= {name: text for name, text in given.items() if name not in _OWN and name != _LIMIT}
        return {
            **reading(given["protocol"], codec, given.get("schemas")),
            "tables": rules([each.strip() for each in given.get("tables", "").split(",") if each.strip()]),
            "before": _truth(given, "before", True),
            "on_bad": chosen("on_bad", given.get("on_bad", "row"), ("row", "fail")),
            "keep_bytes": _truth(given, "keep_bytes", False),
        }

    def _limit(self) -> int | None:
        text = _names(self.options).get(_LIMIT)
        if text is None:
            return None
        if not text.isascii() or not text.isdecimal() or not int(text):
            raise OptionError(_LIMIT, f"{text!r} is not a whole number from 1 on")
        return int(text)


class _Reading:
    """A place, and how its messages are read. It is pickled: to the process that plans, and to tasks."""

    def __init__(self, place: str, settings: dict[str, Any]) -> None:
        self._place = place
        self._settings = settings

    def _extents(self) -> Mapping[Partition, Extent]:
        with closing(self._opened()) as source:
            return dict(source.partitions())

    def _ranges(self, extents: Mapping[Partition, Extent], starts: Mapping[Partition, int]) -> list[MessageRange]:
        ranges = planned_ranges(extents, starts, _NO_LIMIT)
        return [MessageRange(each.partition.topic, each.partition.number, each.start, each.end) for each in ranges]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The changes of a range."""
        from tidewire.spark.frames.decode_task import run

        with closing(self._opened()) as source:
            yield from run(self._settings, source.fetcher.batches(partition.range))

    def _opened(self) -> Source:
        from tidewire.spark.source import open_source

        return open_source(self._place)


class Batch(_Reading, DataSourceReader):
    """Reads all messages that there are when a query begins."""

    def partitions(self) -> list[MessageRange]:
        """A range of offsets for each task."""
        return self._ranges(self._extents(), {})


class Stream(_Reading, DataSourceStreamReader, _AvailableNow):  # type: ignore[misc]
    """Reads messages as they come. An offset of the stream has the next offset of every partition."""

    def __init__(self, place: str, settings: dict[str, Any], limit: int | None) -> None:
        super().__init__(place, settings)
        self._limit = limit
        self._last: Mapping[Partition, Extent] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a stream begins: at the first message that is left of every partition."""
        return _offset({at: extent.first for at, extent in self._extents().items()})

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """How much a batch reads."""
        return super().getDefaultReadLimit() if self._limit is None else _limiting.ReadMaxRows(self._limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember where a stream ends that reads what there is now."""
        self._last = self._extents()

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends."""
        extents = self._extents() if self._last is None else self._last
        starts = {} if start is None else _next_offsets(start)
        most = getattr(limit, "max_rows", None)
        if most is None:
            return _offset(starts | {at: max(extent.end, starts.get(at, 0)) for at, extent in extents.items()})
        begins = {at: starts.get(at, extent.first) for at, extent in extents.items()}
        reached = {at: max(each.end for each in found) for at, found in _by_partition(extents, begins, int(most))}
        return _offset(starts | begins | reached)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[MessageRange]:
        """A range of offsets for each task."""
        starts, ends = _next_offsets(start), _next_offsets(end)
        now = self._extents() if ends.keys() - starts.keys() else {}
        extents = {at: Extent(starts.get(at, now[at].first if at in now else 0), last) for at, last in ends.items()}
        return self._ranges(extents, starts)


def _check_schema(schema: Any) -> None:
    """Refuse a schema of the user's: the columns are always the same."""
    if schema.names != COLUMNS:
        raise OptionError(
            "schema", "the columns are those of tw.decode; leave schema(…) out, and select from the result"
        )


def _by_partition(
    extents: Mapping[Partition, Extent], starts: Mapping[Partition, int], most: int
) -> Iterator[tuple[Partition, list[OffsetRange]]]:
    found: dict[Partition, list[OffsetRange]] = {}
    for each in planned_ranges(extents, starts, most):
        found.setdefault(each.partition, []).append(each)
    yield from found.items()


def _offset(places: Mapping[Partition, int]) -> dict[str, Any]:
    """The offset of a stream, as Spark keeps it in the checkpoint."""
    found: dict[str, dict[str, int]] = {}
    for at in sorted(places):
        found.setdefault(at.topic, {})[str(at.number)] = places[at]
    return found


def _next_offsets(offset: Mapping[str, Mapping[str, int]]) -> dict[Partition, int]:
    return {
        Partition(topic, int(number)): next_ for topic, numbers in offset.items() for number, next_ in numbers.items()
    }


def _names(options: Mapping[str, str]) -> dict[str, str]:
    """Options by their names in lower case, because Spark ignores the case of option names.

    Variables such as ``${PASSWORD}`` are filled in from the environment, here where the source is made: Spark Connect
    writes options to the event log as they are given.
    """
    names = {str(name).lower(): str(text) for name, text in options.items()}
    return {name: text if name == "schemas" else filled(text, name, os.environ) for name, text in names.items()}


def _truth(given: Mapping[str, str], name: str, otherwise: bool) -> bool:
    text = given.get(name)
    if text is None:
        return otherwise
    return _TRUTH[chosen(name, text.lower(), tuple(_TRUTH))]


def _refusal(name: str) -> str:
    if name != _LIMIT:
        return f"a limit of the batches of a stream is called {_LIMIT} here, and needs Spark 4.2"
    return f"a limit of the batches of a stream needs Spark 4.2, and this is {pyspark.__version__}"

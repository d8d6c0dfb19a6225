"""Where changes come from: a database, a seeded workload, or the topics of another changefeed.

``mysql://…``, ``mariadb://…``         the binlog of a database
``workload://SEED?transactions=300``   a workload that needs nothing
``kafka://…``, ``file-topic:…``        topics, in any protocol
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidewire.changefeed.config.replica import CONFIG_INVALID
from tidewire.changefeed.source.base import Resolved, ResumePosition, RowBatch, Source, Upstream
from tidewire.errors import ChangefeedError

__all__ = ["Resolved", "ResumePosition", "RowBatch", "Source", "Upstream", "open_source"]


def open_source(uri: str) -> Source:
    """The source behind a URI."""
    scheme = uri.partition(":")[0].lower() if ":" in uri else ""
    opened = _SCHEMES.get(scheme)
    if opened is None:
        raise ChangefeedError(
            CONFIG_INVALID, f"{scheme or 'no scheme'!r} is not a source; known are {', '.join(_SCHEMES)}"
        )
    return opened(uri)


def _mysql(uri: str) -> Source:
    from tidewire.changefeed.source.mysql import MysqlSource

    return MysqlSource(uri)


def _workload(uri: str) -> Source:
    from tidewire.changefeed.source.workload import WorkloadSource

    return WorkloadSource.open(uri)


def _topics(uri: str) -> Source:
    from tidewire.changefeed.source.topic import open_topics

    return open_topics(uri)


_SCHEMES: Mapping[str, Callable[[str], Source]] = {
    **dict.fromkeys(("mysql", "mysql+ssl", "mariadb"), _mysql),
    "workload": _workload,
    **dict.fromkeys(("kafka", "kafka+ssl", "file-topic", "file"), _topics),
}

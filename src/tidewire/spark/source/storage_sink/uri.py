"""The URI of a storage sink as the URI of a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode

from tidewire.codec.storage_sink.layout import METADATA
from tidewire.storage import open_storage, store_kind

_OF_THE_SINK: Final = frozenset(
    {
        *("protocol", "enable-tidb-extension", "flush-interval", "file-size", "worker-count", "date-separator"),
        *("enable-partition-separator", "enable-table-across-nodes", "file-index-width", "file-index-digit"),
        *("use-table-id-as-path", "output-column-id", "file-expiration-days", "file-cleanup-cron-spec"),
        *(
            "flush-concurrency",
            "spool-disk-quota",
            "spool-base-dir",
            "output-raw-change-event",
            "transaction-atomicity",
        ),
    }
)
"""Parameters of a sink's URI that say how files are written. The files themselves tell, or it does not matter."""

_OF_THE_CODEC: Final = frozenset({"enable-tidb-extension"})


def is_storage(uri: str) -> bool:
    """Whether a URI is that of a storage sink's files.

    All URIs of object stores and of HDFS are, and so is a local folder that has a file ``metadata``. A folder without
    one holds topics.
    """
    if store_kind(uri):
        return True
    return uri.startswith("file:") and open_storage(store_uri(uri), "source").exists(METADATA)


def sink_parameters(uri: str) -> Mapping[str, str]:
    """The parameters of a URI that are the sink's and not the store's."""
    return {name: value for name, value in parse_qsl(uri.partition("?")[2]) if name in _OF_THE_SINK}


def codec_parameters(uri: str) -> dict[str, str]:
    """The parameters of a URI that are options of the codec."""
    return {name: value for name, value in sink_parameters(uri).items() if name in _OF_THE_CODEC}


def store_uri(uri: str) -> str:
    """A URI without the parameters that are the sink's."""
    base, _, query = uri.partition("?")
    rest = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name not in _OF_THE_SINK]
    return f"{base}?{urlencode(rest)}" if rest else base

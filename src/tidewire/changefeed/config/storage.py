"""The storage part of a changefeed's settings."""

from __future__ import annotations

from tidewire.changefeed.config.durations import parse_duration
from tidewire.changefeed.config.overrides import value_or
from tidewire.changefeed.config.sections import CloudStorageConfig, ReplicaConfig
from tidewire.changefeed.config.settings import StorageSettings
from tidewire.changefeed.config.uri import SinkURI
from tidewire.codec.storage_sink.layout import DateSeparator

_FLUSH_SECONDS = (0.1, 600.0)
_FILE_BYTES = (1024, 512 * 1024 * 1024)
MOST_WORKERS = 512
INDEX_DIGITS = range(6, 21)


def storage_settings(uri: SinkURI, config: ReplicaConfig) -> StorageSettings:
    """How files are written to the folder of a URI."""
    sink, storage, plain = config.sink, config.sink.cloud_storage_config or CloudStorageConfig(), StorageSettings("")
    digits = value_or(sink.file_index_digit, plain.file_index_digit)
    return StorageSettings(
        uri.folder,
        min(value_or(storage.worker_count, plain.worker_count), MOST_WORKERS),
        flush_seconds(storage),
        file_bytes(storage),
        flush_concurrency(storage),
        value_or(sink.terminator, plain.terminator),
        DateSeparator((sink.date_separator or plain.date_separator).lower()),
        value_or(sink.enable_partition_separator, plain.enable_partition_separator),
        digits if digits in INDEX_DIGITS else plain.file_index_digit,
        value_or(storage.file_expiration_days, plain.file_expiration_days),
        storage.file_cleanup_cron_spec or plain.file_cleanup_cron_spec,
        bool(storage.output_column_id),
        bool(storage.use_table_id_as_path),
        value_or(sink.csv, plain.csv),
    )


def flush_seconds(storage: CloudStorageConfig) -> float:
    """The flush interval, between a tenth of a second and ten minutes."""
    least, most = _FLUSH_SECONDS
    return min(max(parse_duration(storage.flush_interval or "5s").seconds, least), most)


def file_bytes(storage: CloudStorageConfig) -> int:
    """The size at which a file is closed, between 1 KiB and 512 MiB."""
    least, most = _FILE_BYTES
    return min(max(value_or(storage.file_size, StorageSettings("").file_size), least), most)


def flush_concurrency(storage: CloudStorageConfig) -> int:
    """How many parts of a file are uploaded at once; one where the number is out of its range."""
    count = value_or(storage.flush_concurrency, 1)
    return count if 1 <= count <= MOST_WORKERS else 1

"""The files of TiCDC's storage sink as a source: they read as one topic of one partition.

Each file is a part of that topic: a schema file is a message, and so is each row of a data file. After the files that
were there when ``metadata`` was read follows the checkpoint in it, as a watermark. What a file's offsets are is
written down beside the target (see :mod:`~tidewire.spark.source.storage_sink.journal`), so a sync that starts again
reads on exactly where it was.
"""

from tidewire.spark.source.storage_sink.form import StorageForm
from tidewire.spark.source.storage_sink.source import StorageSource
from tidewire.spark.source.storage_sink.uri import is_storage, store_uri

__all__ = ["StorageForm", "StorageSource", "is_storage", "store_uri"]

"""The files of TiCDC's storage sink as a source: they read as one topic of one partition.

Each file is a part of that topic: a schema file is a message, and so is each row of a data file. After the files that
were there when ``metadata`` was read follows the checkpoint in it, as a watermark. What a file's offsets are is
written down beside the target (see :mod:`~tidewire.spark.source.storage_sink.journal`), so a sync that starts again
reads on exactly where it was.
"""

from tidewire.codec.storage_sink.csv_decoder import PROTOCOL as CSV
from tidewire.spark.source.storage_sink.form import StorageForm
from tidewire.spark.source.storage_sink.source import StorageSource
from tidewire.spark.source.storage_sink.uri import codec_parameters, is_storage, sink_parameters, store_uri

__all__ = ["CSV", "StorageForm", "StorageSource", "codec_parameters", "is_storage", "sink_parameters", "store_uri"]

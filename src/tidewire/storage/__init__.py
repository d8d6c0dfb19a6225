"""The storage of all parts: documents and files below a URI, on a local disk, in an object store or in HDFS.

A reader never sees a part of a document. Writers that compete for a name are told apart by
:meth:`Storage.put_if_absent`: exactly one of them wins. A store that does not answer raises ``StorageError``; it never
looks like a store without the document.

A local folder needs the standard library alone. Object stores (``s3``, ``gs``, ``az`` and their other names) need
``obstore``. Their settings come from the usual environment variables (``AWS_ENDPOINT_URL``, ``AWS_REGION``, …) and
from the parameters of the URI, which have the names that TiCDC gives them: ``s3://bucket/path?endpoint=…&region=…``.
HDFS needs ``hdfs-native``, and its settings come from Hadoop's own files.
"""

from tidewire.storage.base import Entry, Storage
from tidewire.storage.opening import known_parameters, open_storage, store_kind, table_io
from tidewire.storage.split import SplitStorage

__all__ = ["Entry", "SplitStorage", "Storage", "known_parameters", "open_storage", "store_kind", "table_io"]

"""Canal-JSON: Alibaba Canal's flat JSON message, with TiDB's extension.

One message is one JSON object and one event (official Canal: one or more rows). Every value is a string; the types
stand beside the data in ``mysqlType`` and ``sqlType``; commit timestamps, watermarks and large messages need the
``_tidb`` member that ``enable-tidb-extension`` adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tidewire.codec.canal_json.decoder import Decoder
from tidewire.codec.canal_json.encoder import Encoder
from tidewire.codec.canal_json.inspector import inspect
from tidewire.codec.capabilities import Capabilities
from tidewire.codec.options import Options
from tidewire.model import Event, Message

__all__ = ["Decoder", "Encoder", "capabilities", "decode", "encode", "inspect"]


def encode(events: Iterable[Event], **options: Any) -> Iterator[Message]:
    """The messages these events make."""
    return Encoder(Options(**options)).encode(events)


def decode(message: Message, **options: Any) -> Iterator[Event]:
    """The events in one message."""
    return Decoder(Options(**options)).decode(message)


def capabilities(options: Options = Options()) -> Capabilities:
    """What Canal-JSON can say: types as text; timestamps and watermarks with the extension only."""
    extension = options.enable_tidb_extension
    told = {
        "commit ts": extension,
        "row key": extension and options.output_row_key,
        "old values": not options.only_updated,
        "deleted values": not options.delete_only_output_handle_key_columns,
        "lengths": options.content_compatible,
        "scales": options.content_compatible,
        "enum elements": options.content_compatible,
        "enum texts": options.content_compatible,
    }
    return Capabilities(
        row=frozenset({"column types"} | {fact for fact, is_told in told.items() if is_told}),
        ddl=frozenset({"table name", "database name", "kind"} | ({"commit ts"} if extension else set())),
        watermark=extension,
    )

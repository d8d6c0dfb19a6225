"""Canal-JSON: Alibaba Canal's flat JSON message, with TiDB's extension.

One message is one JSON object and one event (official Canal: one or more rows). Every value is a string; the types
stand beside the data in ``mysqlType`` and ``sqlType``; commit timestamps, watermarks and large messages need the
``_tidb`` member that ``enable-tidb-extension`` adds.
"""

from __future__ import annotations

from tidewire.codec.base import Codec
from tidewire.codec.canal_json.decoder import Decoder
from tidewire.codec.canal_json.encoder import Encoder
from tidewire.codec.canal_json.inspector import inspect
from tidewire.codec.capabilities import Capabilities
from tidewire.codec.options import Options

__all__ = ["CODEC", "Decoder", "Encoder", "capabilities", "decode", "encode", "inspect"]


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


CODEC = Codec("canal-json", Encoder, Decoder, inspect, capabilities)
encode, decode = CODEC.encode, CODEC.decode

"""How does decoding into typed columns compare with what others do with the same bytes?

Prints, per protocol, width and peer, CPU time per row and the ratio of tidewire's to it. Peers of this process run in
the same rounds as tidewire. Spark's CPU time is that of the JVM and of the Python workers together; there the rows
also go through tidewire inside Spark, which ships the bytes to Python and the columns back.

No peer reads Craft. The rows are inserts, so there is no old row that a peer would leave out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

import fastavro
import orjson
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from bench_arrow_decode import best, messages, prepared, read
from spark_peers import SPARK_PEERS, spark_times
from tidewire.codec.simple.avro_wire import message_schema

WIDTHS = ("narrow", "wide")
ALONE = "tidewire"
IN_SPARK = "tidewire in Spark"

Work = Callable[[], Any]


class Peer(NamedTuple):
    """Another decoder, what comes out of it, and how its work on a case and width is made ready."""

    name: str
    gives: str
    ready: Callable[[str, str], Work]


def from_json(loads: Callable[[bytes], Any], case: str, width: str) -> Work:
    batch = messages(f"{case}-{width}")
    keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
    if (
        case == "open-protocol"
    ):  # 8 bytes of version and 8 of length before the key's JSON, 8 of length before the value's
        return lambda: [(loads(key[16:]), loads(value[8:])) for key, value in zip(keys, values, strict=True)]
    return lambda: [loads(value) for value in values]


def from_avro(schema: Any, header: int, case: str, width: str) -> Work:
    values = messages(f"{case}-{width}").column("value").to_pylist()
    parsed = fastavro.parse_schema(schema)
    return lambda: [fastavro.schemaless_reader(BytesIO(value[header:]), parsed, None) for value in values]


def registered(width: str) -> Mapping[str, str]:
    found: Mapping[str, str] = json.loads(read(f"avro-{width}.schemas.json"))["schemas"]
    return found


def fastavro_work(case: str, width: str) -> Work:
    return from_avro(json.loads(registered(width)["2"]), 5, case, width)


def fastavro_simple_work(case: str, width: str) -> Work:
    return from_avro(message_schema(), 0, case, width)


def confluent_work(case: str, width: str) -> Work:
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    for number, text in sorted(registered(width).items()):
        given = client.register_schema(f"bench-{number}", Schema(text, "AVRO"))
        assert given == int(number), f"the registry gave {given} to the schema that the messages call {number}"
    deserialize, context = AvroDeserializer(client), SerializationContext("bench", MessageField.VALUE)
    values = messages(f"{case}-{width}").column("value").to_pylist()
    return lambda: [deserialize(value, context) for value in values]


AS_SENT = "a dict as it was sent: most values are text, nothing is checked"
JSON_PEERS = (
    Peer("json.loads", AS_SENT, partial(from_json, json.loads)),
    Peer("orjson.loads", AS_SENT, partial(from_json, orjson.loads)),
)
PEERS: Mapping[str, Sequence[Peer]] = {
    "canal-json": JSON_PEERS,
    "open-protocol": JSON_PEERS,
    "simple-json": JSON_PEERS,
    "avro": (
        Peer("fastavro", "a dict of the Avro types; one schema, dates are text, no key", fastavro_work),
        Peer("AvroDeserializer", "the same through confluent-kafka, schema by its id", confluent_work),
    ),
    "simple-avro": (
        Peer("fastavro", "the message as nested dicts, columns without their types", fastavro_simple_work),
    ),
}


def here(case: str, width: str) -> list[dict[str, Any]]:
    """The peers of this process, and tidewire, in the same rounds."""
    decoder, batch = prepared(case, width, fast=True)
    rows = batch.num_rows
    tidewire, *others = best(partial(decoder.decode, batch), *(peer.ready(case, width) for peer in PEERS[case]))
    return [
        compared(case, width, peer.name, peer.gives, took / rows, ALONE, tidewire / rows)
        for peer, took in zip(PEERS[case], others, strict=True)
    ]


def in_spark(case: str, width: str, alone: float) -> list[dict[str, Any]]:
    """Spark's own decoder against tidewire in Spark, measured in the same rounds, and against tidewire alone."""
    decoder, batch = prepared(case, width, fast=True)
    ((plan, rows),) = decoder.decode(batch).batches
    peer, (theirs, ours) = SPARK_PEERS[case], spark_times(case, width, batch, plan, rows, registered(width))
    return [
        compared(case, width, peer.name, peer.gives, theirs, against, each)
        for against, each in ((ALONE, alone), (IN_SPARK, ours))
    ]


def compared(case: str, width: str, peer: str, gives: str, theirs: float, against: str, ours: float) -> dict[str, Any]:
    return {
        "case": case,
        "width": width,
        "peer": peer,
        "gives": gives,
        "peer_ns": theirs * 1e9,
        "against": against,
        "tidewire_ns": ours * 1e9,
        "ratio": ours / theirs,
    }


def measure() -> list[dict[str, Any]]:
    """Each protocol, width and peer: nanoseconds a row of the peer and of tidewire, and tidewire's ratio to it."""
    found = [row for width in WIDTHS for case in PEERS for row in here(case, width)]
    alone = {(row["case"], row["width"]): row["tidewire_ns"] / 1e9 for row in found}
    return found + [
        row for width in WIDTHS for case in SPARK_PEERS for row in in_spark(case, width, alone[case, width])
    ]


def main() -> None:
    print(f"{'':14} {'width':7} {'peer':17} {'peer ns':>8} {'against':18} {'ns':>8} {'ratio':>6}  the peer gives")
    for row in measure():
        print(
            f"{row['case']:14} {row['width']:7} {row['peer']:17} {row['peer_ns']:8.0f} {row['against']:18} "
            f"{row['tidewire_ns']:8.0f} {row['ratio']:6.2f}  {row['gives']}"
        )


if __name__ == "__main__":
    main()

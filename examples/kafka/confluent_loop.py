"""Read a topic with confluent-kafka to its end and keep the current rows of each table in a dict.

``python confluent_loop.py localhost:9092 shop simple``
"""

import sys

from confluent_kafka import Consumer, KafkaError

from tidewire import DecodeError, Message, Position, RowChange, TableName, protocol

brokers, topic, protocol_name = sys.argv[1:]
decoder = protocol(protocol_name).Decoder()
consumer = Consumer({"bootstrap.servers": brokers, "group.id": "rows", "auto.offset.reset": "earliest"}
                    | {"enable.auto.commit": False, "enable.partition.eof": True})  # fmt: skip
consumer.subscribe([topic])
tables: dict[TableName, dict[object, object]] = {}
while (received := consumer.poll(60)) is not None:
    if (trouble := received.error()) is not None:
        if trouble.code() == KafkaError._PARTITION_EOF:
            break
        raise SystemExit(f"error: {trouble}")
    try:
        events = decoder.decode(Message.of(received))
    except DecodeError as error:
        print(f"set aside: {Position.of(received)}: {error}")
        continue
    for event in events:
        if isinstance(event, RowChange):
            row = event.after or event.before or {}
            key = tuple(row[name] for name in event.table.handle_key)
            rows = tables.setdefault(event.table.name, {})
            rows.pop(key, None)
            if event.after is not None:
                rows[key] = event.after
consumer.close()
for name, rows in sorted(tables.items()):
    print(name, list(rows.values()))

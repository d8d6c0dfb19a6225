"""Read messages of any protocol and keep the current rows of each table in a dict."""

from tidewire import Column, DecodeError, Event, Message, Op, RowChange, TableName, TableSchema, protocol

ORDERS = TableSchema(
    TableName("shop", "orders"), (Column.of("id", "int", primary_key=True), Column.of("state", "varchar(10)"))
)
HISTORY: list[Event] = [
    RowChange(ORDERS, 1, after={"id": 1, "state": "new"}),
    RowChange(ORDERS, 2, after={"id": 2, "state": "new"}),
    RowChange(ORDERS, 3, before={"id": 1, "state": "new"}, after={"id": 1, "state": "paid"}),
    RowChange(ORDERS, 4, before={"id": 2, "state": "new"}),
]

codec = protocol("open-protocol")
topic = [*codec.encode(HISTORY), Message(b"not", b"a message")]

tables: dict[TableName, dict[object, object]] = {}
for message in topic:
    try:
        for event in codec.decode(message):
            if isinstance(event, RowChange):
                row = event.after or event.before or {}
                key = tuple(row[name] for name in event.table.handle_key)
                rows = tables.setdefault(event.table.name, {})
                if event.op is Op.DELETE:
                    rows.pop(key, None)
                else:
                    rows[key] = event.after
    except DecodeError as error:
        print("set aside:", error)

print(tables)
assert tables == {ORDERS.name: {(1,): {"id": 1, "state": "paid"}}}

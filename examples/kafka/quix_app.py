"""A Quix Streams app: the new rows of a table, out of a topic of changes and into a topic of JSON.

``python quix_app.py localhost:9092 changes rows canal-json``; a fifth argument ends it after so many rows.
"""

import sys
from typing import Any

from quixstreams import Application

from tidewire import quix_deserializer

brokers, source, target, protocol_name, *count = sys.argv[1:]
app = Application(broker_address=brokers, consumer_group="new-rows", auto_offset_reset="earliest", loglevel="WARNING")
changes = app.topic(source, value_deserializer=quix_deserializer(protocol_name))
rows = app.topic(target, value_serializer="json")


def new_row(event: dict[str, Any]) -> dict[str, Any]:
    """The new values of a change, with the name of the table."""
    return {"table": event["table"], **event["after"]}


stream = app.dataframe(changes)
stream = stream.filter(lambda event: event["kind"] == "row" and event["after"] is not None)
stream.apply(new_row).to_topic(rows)

if __name__ == "__main__":
    app.run(count=int(count[0]) if count else 0, timeout=60 if count else 0)

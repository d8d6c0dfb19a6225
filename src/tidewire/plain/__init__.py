"""Events and messages as plain JSON, one line each: what the command line reads and writes, and what tests compare.

A key that a protocol does not tell is left out, so that unknown, NULL and zero stay three different things.
"""

from tidewire.plain.event import event_from_plain, event_to_plain
from tidewire.plain.message import message_from_plain, message_to_plain, position_from_plain
from tidewire.plain.value import value_from_plain, value_to_plain

__all__ = [
    "event_from_plain",
    "event_to_plain",
    "message_from_plain",
    "message_to_plain",
    "position_from_plain",
    "value_from_plain",
    "value_to_plain",
]

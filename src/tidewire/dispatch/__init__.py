"""Where an event goes: pure functions from events to partitions, as TiCDC computes them."""

from tidewire.dispatch.partition import Dispatcher, Hash, Rule, partition

__all__ = ["Dispatcher", "Hash", "Rule", "partition"]

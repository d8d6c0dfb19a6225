"""A seeded workload with a known state, and how a changefeed with all its faults would deliver it.

::

    Workload ──▶ entries ──▶ deliver ──▶ packets ──▶ encoded ──▶ messages
       │           │            faults come in at every arrow
       └ habits    └ states: what the tables hold at a watermark

Nothing here touches a queue or an engine.
"""

from tidewire.workload.delivery import Delivery, Packet, Sent, deliver, encoded
from tidewire.workload.faults import FAULTS
from tidewire.workload.production import Production, expectation, produce, rule_for_all
from tidewire.workload.statements import Kind, Statement
from tidewire.workload.transactions import ActionRates
from tidewire.workload.workload import Entry, Habits, ResolvedTs, Transaction, Workload, events, states

__all__ = [
    "FAULTS",
    "ActionRates",
    "Delivery",
    "Entry",
    "Habits",
    "Kind",
    "Packet",
    "Production",
    "ResolvedTs",
    "Sent",
    "Statement",
    "Transaction",
    "Workload",
    "deliver",
    "encoded",
    "events",
    "expectation",
    "produce",
    "rule_for_all",
    "states",
]

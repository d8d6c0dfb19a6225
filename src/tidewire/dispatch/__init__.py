"""What a changefeed sends and where it goes: pure functions from events to verdicts, topics and partitions."""

from tidewire.dispatch.broadcast import Address, Broadcast
from tidewire.dispatch.column_selector import ColumnSelector, ColumnSelectors
from tidewire.dispatch.event_filter import EventFilter, EventFilterRule
from tidewire.dispatch.expression import Expression
from tidewire.dispatch.filter import Filter, Verdict, changes_key, is_eligible, split, verify_eligible
from tidewire.dispatch.partition import Dispatcher, Hash, Rule, partition, partition_key
from tidewire.dispatch.router import Dispatch, DispatchRule, TopicExpression
from tidewire.dispatch.statements import per_table
from tidewire.dispatch.table_rules import ColumnPatterns, TablePatterns, TableRules

__all__ = [
    "Address",
    "Broadcast",
    "ColumnPatterns",
    "ColumnSelector",
    "ColumnSelectors",
    "Dispatch",
    "DispatchRule",
    "Dispatcher",
    "EventFilter",
    "EventFilterRule",
    "Expression",
    "Filter",
    "Hash",
    "Rule",
    "TablePatterns",
    "TableRules",
    "TopicExpression",
    "Verdict",
    "changes_key",
    "is_eligible",
    "partition",
    "partition_key",
    "per_table",
    "split",
    "verify_eligible",
]

"""Which topic and which partition a table's events go to: the rules of ``sink.dispatchers``.

A topic expression is a fixed topic, or one made of a table's names such as ``cdc_{schema}_{table}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from tidewire.dispatch.partition import FAILED, Dispatcher, Rule, columns_of, partition, partition_key
from tidewire.dispatch.table_rules import TablePatterns
from tidewire.errors import ChangefeedError, OptionError
from tidewire.model import Generated, RowChange, TableName, TableSchema

INVALID_TOPIC = "CDC:ErrKafkaInvalidConfig"
LONGEST_TOPIC = 249
"""The most characters Kafka allows in a topic's name."""

_LITERAL = "[A-Za-z0-9._-]"
_EXPRESSION = re.compile(rf"{_LITERAL}*(?:\{{schema\}})?(?:{_LITERAL}*\{{table\}})?{_LITERAL}*")
_FOREIGN = re.compile(r"[^A-Za-z0-9._-]")
_RESERVED = {".": "_", "..": "__"}


@dataclass(frozen=True, slots=True)
class TopicExpression:
    """A topic, or how to make one from a table's names."""

    text: str

    @classmethod
    def parse(cls, text: str) -> TopicExpression:
        """Parse an expression; raises ``CDC:ErrKafkaInvalidConfig`` if it is not valid.

        >>> TopicExpression.parse("cdc_{schema}_{table}").topic(TableName("shop", "Orders"))
        'cdc_shop_Orders'
        """
        if not text or not _EXPRESSION.fullmatch(text):
            raise ChangefeedError(
                INVALID_TOPIC,
                f"invalid topic expression {text!r}: it may hold letters, digits, '.', '_' and '-', then {{schema}} "
                "and after it {table}, each once at most",
            )
        return cls(text)

    @property
    def is_static(self) -> bool:
        """Is it the same topic for every table?"""
        return "{" not in self.text

    @property
    def names_both(self) -> bool:
        """Does the topic contain both schema and table, as Avro needs it?"""
        return "{schema}" in self.text and "{table}" in self.text

    def topic(self, name: TableName) -> str:
        """The topic of a table. In one made from names, characters that Kafka forbids are replaced."""
        if self.is_static:
            return self.text
        schema, table = (_FOREIGN.sub("_", part) for part in name)
        made = self.text.replace("{schema}", schema).replace("{table}", table)[:LONGEST_TOPIC]
        return _RESERVED.get(made, made)


@dataclass(frozen=True, slots=True)
class DispatchRule:
    """One entry of ``sink.dispatchers``, as it is written.

    Without a ``topic`` the default topic is used; ``index`` and ``columns`` belong to the partition rules of that name.
    """

    matcher: tuple[str, ...]
    topic: str = ""
    partition: str = ""
    index: str = ""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Route:
    tables: TablePatterns
    topic: TopicExpression
    rule: Rule


class Dispatch:
    """The rules in their order. Tables that no rule matches go to the default topic, spread by table.

    ``warnings`` lists unknown partition rules, which count as ``default``.
    """

    def __init__(
        self,
        default_topic: str,
        rules: Iterable[DispatchRule] = (),
        *,
        protocol: str = "",
        case_sensitive: bool = False,
    ) -> None:
        self.default_topic = default_topic
        self.protocol = protocol
        rules = tuple(rules)
        self.warnings = tuple(
            f"dispatcher {rule.partition!r} of {list(rule.matcher)} is unknown, so its rows are spread by table"
            for rule in rules
            if _rule(rule) is None
        )
        everything = DispatchRule(("*.*",))
        self._routes = tuple(self._route(rule, case_sensitive) for rule in (*rules, everything))
        self._route_of = lru_cache(maxsize=4096)(self._first_route)
        self._topic_of = lru_cache(maxsize=4096)(self._made_topic)

    def topic_of(self, name: TableName) -> str:
        """The topic of a table; a statement about a whole schema goes to the default topic."""
        return self._topic_of(name)

    def rule_of(self, name: TableName) -> Rule:
        """How the rows of a table are spread over partitions."""
        return self._route_of(name).rule

    def partition(self, change: RowChange, count: int) -> int:
        """The partition that a row change goes to, given the number of partitions."""
        with _dispatching():
            return partition(change, self.rule_of(change.table.name), count)

    def partition_key(self, change: RowChange) -> str:
        """What rows must share, besides topic and partition, to be packed into one message."""
        with _dispatching():
            return partition_key(change, self.rule_of(change.table.name))

    def verify(self, tables: Iterable[TableSchema]) -> None:
        """Refuse rules that do not fit one of these tables."""
        for table in tables:
            self._verify_columns(table)
            if self.protocol == "avro" and not self._route_of(table.name).topic.names_both:
                raise ChangefeedError(
                    INVALID_TOPIC,
                    f"avro needs a topic for each table, but {table.name} goes to {self.topic_of(table.name)!r}: "
                    "add a dispatcher for it whose topic has both {schema} and {table}",
                )

    def _verify_columns(self, table: TableSchema) -> None:
        rule = self.rule_of(table.name)
        with _dispatching():
            hashed = columns_of(table, rule)
        virtual = [column.name for column in hashed if column.generated is Generated.VIRTUAL]
        if virtual:
            raise ChangefeedError(
                FAILED,
                f"rows of {table.name} cannot be dispatched by the virtual column {', '.join(virtual)}, which they "
                "do not carry; choose other columns or another index in sink.dispatchers",
            )

    def _route(self, rule: DispatchRule, case_sensitive: bool) -> _Route:
        topic = TopicExpression.parse(rule.topic) if rule.topic else TopicExpression(self.default_topic)
        if self.protocol == "avro" and not topic.is_static and not topic.names_both:
            raise ChangefeedError(
                INVALID_TOPIC, f"invalid topic expression {rule.topic!r}: avro needs both {{schema}} and {{table}}"
            )
        tables = TablePatterns.parse(rule.matcher, case_sensitive=case_sensitive)
        return _Route(tables, topic, _rule(rule) or Rule())

    def _made_topic(self, name: TableName) -> str:
        return self._route_of(name).topic.topic(name) if name.table else self.default_topic

    def _first_route(self, name: TableName) -> _Route:
        return next((route for route in self._routes if route.tables.matches(name)), self._routes[-1])


@contextmanager
def _dispatching() -> Iterator[None]:
    """Raise TiCDC's code if a table does not fit its rule."""
    try:
        yield
    except OptionError as error:
        raise ChangefeedError(FAILED, error.reason.removesuffix(f" [{FAILED}]")) from None


def _rule(rule: DispatchRule) -> Rule | None:
    """The partition rule of an entry; ``None`` if its name is unknown."""
    try:
        dispatcher = Dispatcher.named(rule.partition or "default")
    except ValueError:
        return None
    columns = tuple(rule.columns) if dispatcher is Dispatcher.COLUMNS else ()
    if dispatcher is Dispatcher.COLUMNS and not columns:
        raise ChangefeedError(FAILED, f"the dispatcher columns of {list(rule.matcher)} names no columns")
    index = rule.index if dispatcher is Dispatcher.INDEX_VALUE else ""
    return Rule(dispatcher, index=index or None, columns=columns)

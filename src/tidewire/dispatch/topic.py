"""Topic expressions: a fixed topic, or one made of a table's names such as ``cdc_{schema}_{table}``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidewire.errors import ChangefeedError
from tidewire.model import TableName

INVALID = "CDC:ErrKafkaInvalidConfig"
LONGEST = 249
"""The most characters Kafka allows in a topic's name."""

_LITERAL = "[A-Za-z0-9._-]"
_EXPRESSION = re.compile(rf"{_LITERAL}*(?:\{{schema\}})?(?:{_LITERAL}*\{{table\}})?{_LITERAL}*")
_FOREIGN = re.compile(r"[^A-Za-z0-9._-]")
_RESERVED = {".": "_", "..": "__"}


@dataclass(frozen=True, slots=True)
class TopicExpression:
    """A topic, or how to make one of a table's names."""

    text: str

    @classmethod
    def parse(cls, text: str) -> TopicExpression:
        """Parse an expression; raises ``CDC:ErrKafkaInvalidConfig`` if it is not valid.

        >>> TopicExpression.parse("cdc_{schema}_{table}").topic(TableName("shop", "Orders"))
        'cdc_shop_Orders'
        """
        if not text or not _EXPRESSION.fullmatch(text):
            raise ChangefeedError(
                INVALID,
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
        """Do both the schema and the table show in the topic, as Avro needs it?"""
        return "{schema}" in self.text and "{table}" in self.text

    def topic(self, name: TableName) -> str:
        """The topic of a table. A fixed topic is used as it is; a made one is fitted to Kafka's rules."""
        if self.is_static:
            return self.text
        schema, table = (_FOREIGN.sub("_", part) for part in name)
        made = self.text.replace("{schema}", schema).replace("{table}", table)[:LONGEST]
        return _RESERVED.get(made, made)

"""SQL expressions over the columns of one row, with MySQL's meaning: the value expressions of event filters."""

from __future__ import annotations

from tidewire.dispatch.expression.grammar import SyntaxProblem
from tidewire.dispatch.expression.parse import Name, Node, evaluate, names, parse
from tidewire.dispatch.expression.values import Sql, from_column, truth
from tidewire.dispatch.per_table import PerTable
from tidewire.errors import ChangefeedError
from tidewire.model import Column, Row, TableSchema

__all__ = ["Expression"]

INVALID = "CDC:ErrInvalidFilterExpression"
UNKNOWN_COLUMN = "CDC:ErrExpressionColumnNotFound"


class Expression:
    """A condition on a row."""

    def __init__(self, text: str, root: Node) -> None:
        self.text = text
        self._root = root
        self._columns = PerTable(self._resolve)

    @classmethod
    def parse(cls, text: str) -> Expression:
        """Parse an expression; raises ``CDC:ErrInvalidFilterExpression``, which says where the mistake is."""
        try:
            return cls(text, parse(text))
        except SyntaxProblem as problem:
            raise ChangefeedError(INVALID, f"the expression {text!r}: {problem}") from None

    def holds(self, row: Row, table: TableSchema) -> bool:
        """Is the expression true for a row? NULL is not true, and neither is a value out of every number's range.

        >>> from tidewire.model import TableName
        >>> table = TableSchema.build(TableName("shop", "orders"), [Column.of("id", "int"), Column.of("note", "text")])
        >>> Expression.parse("id > 5 AND note IS NULL").holds({"id": 6, "note": None}, table)
        True
        """
        try:
            return truth(self.value(row, table)) is True
        except ArithmeticError:
            return False

    def value(self, row: Row, table: TableSchema) -> Sql:
        """The value of the expression for a row."""
        columns = self._columns(table)

        def value_of(name: Name) -> Sql:
            column = columns[name]
            return from_column(row.get(column.name), column)

        return evaluate(self._root, value_of)

    def verify(self, table: TableSchema) -> None:
        """Raise ``CDC:ErrExpressionColumnNotFound`` if a table lacks one of the expression's columns."""
        self._columns(table)

    def _resolve(self, table: TableSchema) -> dict[Name, Column]:
        columns = {column.name.lower(): column for column in table.columns}
        return {name: self._column(name, columns, table) for name in names(self._root)}

    def _column(self, name: Name, columns: dict[str, Column], table: TableSchema) -> Column:
        column = columns.get(name.column.lower())
        if column is None or not _is_about(name, table):
            spelled = ".".join(part for part in (name.schema, name.table, name.column) if part)
            raise ChangefeedError(
                UNKNOWN_COLUMN, f"the expression {self.text!r}: {table.name} has no column {spelled!r}"
            )
        return column


def _is_about(name: Name, table: TableSchema) -> bool:
    """Does a column's qualifier, if it has one, name this table?"""
    qualifiers = ((name.schema, table.name.schema), (name.table, table.name.table))
    return all(part is None or part.lower() == known.lower() for part, known in qualifiers)

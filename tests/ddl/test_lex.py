"""The signature of a statement: what makes it another one, and what does not."""

from __future__ import annotations

import pytest

from tidewire.ddl.lex import Kind, lex, signature

STATEMENT = "CREATE TABLE `db`.`T` (`a` INT DEFAULT 5, `b` CHAR(3) DEFAULT _UTF8MB4'x  Y')"


@pytest.mark.parametrize(
    "copy",
    [
        STATEMENT + ";",
        STATEMENT + " ; -- the end",
        STATEMENT.lower().replace("`t`", "`T`").replace("y'", "Y'"),
        STATEMENT.replace(" ", "\n  ").replace("x\n  \n  Y", "x  Y"),
        STATEMENT.replace("INT", "/* a number */ INT # here\n"),
        STATEMENT.replace("DEFAULT 5", "/*!40101 DEFAULT 5 */"),
        STATEMENT.replace("DEFAULT 5", "/*T![feature] DEFAULT 5 */"),
    ],
)
def test_a_copy_has_the_same_signature(copy: str) -> None:
    assert signature(copy) == signature(STATEMENT)


@pytest.mark.parametrize(
    "other",
    [
        STATEMENT.replace("x  Y", "x Y"),
        STATEMENT.replace("x  Y", "X  Y"),
        STATEMENT.replace("`T`", "`t`"),
        STATEMENT.replace("5", "'5'"),
        STATEMENT.replace("`a`", "'a'"),
        STATEMENT.replace("INT DEFAULT 5", "INT"),
    ],
)
def test_another_statement_has_another_one(other: str) -> None:
    assert signature(other) != signature(STATEMENT)


def test_a_text_that_breaks_off_has_one_too() -> None:
    assert signature("ALTER TABLE t COMMENT 'no end") == "ALTER TABLE T COMMENT 'no end"
    assert signature("") == signature(" ; -- nothing") == ""


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (r"'a''b'", "a'b"),
        (r"""'a"b'""", 'a"b'),
        (r"""select "a'b\"c" """, "a'b\"c"),
        (r"select 'a\'b\n\%\q'", "a'b\n\\%q"),
        ("`a``b`", "a`b"),
        ("x'4'", "04"),
        ("b'101'", "05"),
        ("0b100000000", "0100"),
        ("0xaf", "af"),
        (".5e-3", ".5e-3"),
        ("1a", "1a"),
        ("表😀", "表"),
    ],
)
def test_a_literal_means_what_mysql_says(text: str, meaning: str) -> None:
    tokens = [token for token in lex(text) if token.word != "SELECT"]

    assert tokens[0].text == meaning


def test_the_end_comes_last() -> None:
    assert [token.kind for token in lex("a `b")] == [Kind.WORD, Kind.BROKEN, Kind.END]

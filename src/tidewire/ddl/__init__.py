"""DDL: what a statement does (`parse`), what that makes of a table, and of its columns in a target (`shape`)."""

"""The initial load: what a dump or a database held at one moment, as typed columns. Pure readers; no Spark here."""

"""The initial load in Spark: chunks of a dump become staged files, and one plan makes tables of them."""

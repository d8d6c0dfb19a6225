"""The producing side: a source's changes, filtered and dispatched by TiCDC's rules, into a sink."""

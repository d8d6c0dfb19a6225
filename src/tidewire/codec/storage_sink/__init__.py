"""The files that TiCDC's storage sink writes: where they lie, schema files, CSV records. Sink and source share it."""

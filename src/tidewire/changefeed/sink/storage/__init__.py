"""Changes as files in folders of tables, on a disk or in an object store, laid out as TiCDC does it."""

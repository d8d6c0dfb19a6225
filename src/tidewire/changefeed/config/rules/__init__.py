"""The rules a changefeed must obey, as tables of TiCDC's code and the question that breaks it."""

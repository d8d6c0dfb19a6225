"""The service over HTTP: TiCDC's Open API v2, and a client for it."""

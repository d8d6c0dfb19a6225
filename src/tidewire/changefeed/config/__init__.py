"""A changefeed's configuration: sink URIs, replica configurations, and the rules that they must obey."""

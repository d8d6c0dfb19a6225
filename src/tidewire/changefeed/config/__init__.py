"""How a changefeed is told what to do: sink URIs, replica configurations, and the rules they must obey."""

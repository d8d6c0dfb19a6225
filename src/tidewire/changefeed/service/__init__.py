"""Changefeeds as a service: kept in a store, run in threads, and moved from state to state."""

"""DataFrames of messages to DataFrames of changes: plain transforms for batch, stream and Spark Connect.

What runs in the driver is in ``decode``, ``rows``, ``learn`` and ``infer``; what runs on executors in ``decode_task``,
``rows_task`` and ``learn_task``, which import no Spark. ``executors`` connects the two.
"""

"""Everything about Kafka: URIs, client settings, security, topics and offsets, fetching and producing."""

"""The one room for every use of Kafka: URIs, client settings, security, topics and offsets, fetching."""

"""A Kafka broker on loopback, with the jars that it needs, for tests, measurements and the demonstration."""

"""Sources whose records arrive as time passes: Kafka, standard input, sockets."""

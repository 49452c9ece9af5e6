"""Sources whose records come as time passes: Kafka, standard input, sockets."""

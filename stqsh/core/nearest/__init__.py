"""kNN queries on a slot: the monitored circles, their members, and the candidates that the slot offers."""

"""Reading answers: subscriptions, snapshots, projections."""

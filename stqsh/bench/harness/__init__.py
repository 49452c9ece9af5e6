"""What all measurements share: workloads, sessions, processor time."""

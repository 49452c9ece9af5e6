"""The parts that all measurements share: workloads, sessions, processor time."""

"""The engine's process: start, heartbeat, supervision."""

"""Sinks: the process that writes a session's updates to files, addresses and topics.

It is above the shell's writers in the layers, because a sink writes the same output as they do.
"""

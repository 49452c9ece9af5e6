"""Sinks: the process that writes a session's updates to files, addresses and topics.

It stands above the shell's writers, because what a sink writes is what they print.
"""

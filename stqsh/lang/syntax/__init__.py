"""The parser: from text to statements, and what may follow a text."""

"""From text to a parse tree, and what may come next."""

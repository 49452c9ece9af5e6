"""The abstract syntax tree: statements and their parts."""

"""An extension of stqsh: a file format, a function and a query kind."""

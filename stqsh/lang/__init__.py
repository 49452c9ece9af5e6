"""STQL, the language of stqsh: from text to statements, and from statements to the specs of the control log.

source.py       where a piece of text stands: Source, Piece, Span
units.py        units of durations, lengths and speeds
splitting.py    split(text, file=None) -> list[Piece];  is_complete(text) -> bool
parse.py        parse(text, file=None) -> list[Statement];  parse_piece(piece) -> Statement
ast.py          the statements; their parts are in expressions.py
printer.py      to_sql(statement) -> str
errors.py       LangError and its subclasses: a place, a caret, what was expected, near names
catalogue.py    CatalogueView, what the binder asks for; Catalogue, one in memory
bind.py         bind(statement, catalogue, …) -> Bound(kind, spec), and one function a statement
keywords.py     STATEMENTS (name, syntax, help, example) and KEYWORDS
complete.py     expected(text) -> what may come next
"""

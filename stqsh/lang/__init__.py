"""STQL, the language of stqsh: from text to statements, and from statements to the specs of the control log.

ast/           the statements, their expressions, and their positions in the source text
syntax/        the grammar, splitting, parsing, what may follow a text, error diagnosis
ast_builder/   one function for each rule of the grammar, which builds the syntax tree
printer/       statements as text
binder/        checks names and types against the catalogue; one function for each statement
catalogue.py   the interface by which the binder reads a catalogue
types.py       the types of columns
errors.py      errors with a position in the source, a caret, and what was expected

>>> from stqsh.lang.syntax.parse import parse
>>> from stqsh.lang.printer.printer import to_sql
>>> [statement] = parse("select oid from taxis nearest 3 to 'ambulance';")
>>> to_sql(statement)
"SELECT oid FROM taxis NEAREST 3 TO 'ambulance'"
"""

"""STQL, the language of stqsh: from text to statements, and from statements to the specs of the control log.

ast/           the statements, their expressions, and the source that they come from
syntax/        the grammar, splitting, parsing, what may come next, error diagnosis
ast_builder/   one function for each rule of the grammar, which builds the syntax tree
printer/       statements as text
binder/        names and types checked against the catalogue; one function for each statement
reference/     what HELP says of each statement
catalogue.py   what the binder asks of a catalogue
types.py       the types of columns
errors.py      errors with a place in the source, a caret, and what was expected

>>> from stqsh.lang.syntax.parse import parse
>>> from stqsh.lang.printer.printer import to_sql
>>> [statement] = parse("select oid from taxis nearest 3 to 'ambulance';")
>>> to_sql(statement)
"SELECT oid FROM taxis NEAREST 3 TO 'ambulance'"
"""

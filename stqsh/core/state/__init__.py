"""A slot's state: named arrays, and the tables, keys, strings and columns that consist of them."""

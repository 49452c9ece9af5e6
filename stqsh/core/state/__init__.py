"""What a slot keeps: named arrays, and tables, keys, texts and columns made of them."""

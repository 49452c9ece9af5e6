"""Maps: in the terminal (`app`), as text (`frame`), as a page in a file or served (`page`)."""

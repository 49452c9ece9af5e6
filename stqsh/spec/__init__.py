"""The contract: the structures that cross a process or package boundary, declared once."""

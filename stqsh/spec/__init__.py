"""The contract: what crosses a process or a package boundary, declared once."""

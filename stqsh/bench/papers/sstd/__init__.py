"""The figures of SSTD (section 7 of the paper)."""

"""`stqsh bench`: measure what things cost. Tests never assert speed."""

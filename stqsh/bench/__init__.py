"""`stqsh bench`: what things cost, one module a figure; speed is measured here, never asserted in tests."""

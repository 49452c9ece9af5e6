"""What the tests share: the oracle, the strategies, the runners."""

"""Sessions after the launch: how they end, and what their logs say."""

"""The database itself: its address, its transactions, its columns and its upgrades."""

"""People's accounts, homes and storage on this machine, asked without blocking the Hub."""

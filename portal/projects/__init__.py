"""Projects: spaces in which members share an account, a budget and a folder."""

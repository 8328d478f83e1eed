"""Projects: spaces of teams that share files, runs, apps, endpoints and a budget."""

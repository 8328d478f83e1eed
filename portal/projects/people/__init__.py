"""People of projects: who is in one, and what follows when someone leaves."""

"""The same project elsewhere: its file, templates, forks of repositories, and runs once more."""

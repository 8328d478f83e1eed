"""Projects elsewhere: their file, templates, forks of repositories, and repetitions of runs."""

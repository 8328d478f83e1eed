"""A single job: its submission, its log and its end."""

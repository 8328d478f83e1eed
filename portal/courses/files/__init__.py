"""Files that a course hands out and collects."""

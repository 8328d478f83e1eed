"""What a course hands out and collects."""

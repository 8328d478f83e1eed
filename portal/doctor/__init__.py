"""Command ``portal doctor``: checks a real site, and says what is wrong and how to fix it."""

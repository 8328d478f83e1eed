"""Command ``portal doctor``: examines a real site, and says what is wrong and how to mend it."""

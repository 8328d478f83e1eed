"""``portal setup``: files, account and rights of a site on a submit host, written as planned, kept
in a journal, and taken back with it."""

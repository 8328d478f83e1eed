"""Shared classes: rosters, calendars, reservations, staggered starts, handouts and help."""

"""Runs: their start by a session, the reports of their points, and what their user sees."""

"""Kinds of sessions that only courses have."""

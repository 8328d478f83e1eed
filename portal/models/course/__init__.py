"""Courses."""

"""Courses by the API."""

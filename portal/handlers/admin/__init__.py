"""Announcements and records for admins, and the API's own description."""

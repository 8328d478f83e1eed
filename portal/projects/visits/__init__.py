"""Visits: a member in a colleague's session, by consent."""

"""Logs of the portal's processes: their formats, the id of a request in them, traces."""

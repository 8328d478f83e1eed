"""The tables of sessions: their records, reports and usage."""

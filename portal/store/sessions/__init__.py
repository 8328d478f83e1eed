"""The tables of sessions: what they were, said and used."""

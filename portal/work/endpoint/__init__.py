"""Endpoints: models that answer, in jobs that follow each other."""

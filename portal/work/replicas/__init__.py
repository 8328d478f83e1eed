"""Replica sets: the desired state of kinds of work whose sessions the portal keeps running."""

"""Metrics for Prometheus: what operators see from outside, of the service and of the Hub.

Labels have values that the code or the site's configuration names; nothing that users choose.
"""

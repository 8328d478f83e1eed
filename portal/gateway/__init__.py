"""Gateway of endpoints: a process of its own, between the proxy and the replicas of served models.

The web service writes which models there are (`routes`); callers show a token of the Hub
(`access`); a request takes a place at a replica, or waits for one (`places`), and is forwarded
over mutual TLS (`forwarding`). A restart of the Hub or of the service does not touch it.
"""

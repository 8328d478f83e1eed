"""Replica of an endpoint: the program of a job that serves a model.

`replica` keeps the endpoint's command running on a Unix socket that no other user can reach;
`listener` accepts the gateway alone, by mutual TLS; `forwarding` passes its requests on. The
replica's key is made in memory, and the service learns its certificate, so no secret travels.
"""

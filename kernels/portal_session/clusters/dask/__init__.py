"""Clusters of Dask, as notebooks use them."""

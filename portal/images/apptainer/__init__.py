"""Apptainer: the one way to it, its files and its signatures."""

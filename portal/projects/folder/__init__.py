"""Folders of projects, which a small program makes as root (deploy/project-folder)."""

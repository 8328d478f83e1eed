"""Folders of small files, packed into one SquashFS image each, which sessions bind without root."""


class PackingError(Exception):
    """Packing that was refused or failed: a sentence, and the HTTP ``status``."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status

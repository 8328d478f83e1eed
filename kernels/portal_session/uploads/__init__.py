"""Resumable uploads of large files straight to a folder of the user's, by the protocol of tus.io.

The session's own server writes them, as the user: no byte passes through the Hub or the portal's
service. `store` has the files, `handlers` the protocol.
"""


class UploadError(Exception):
    """Upload that was refused or failed: a sentence, and the HTTP ``status``."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status

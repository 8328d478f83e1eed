"""S3-compatible storages of the project of a session: ``portal-s3``."""

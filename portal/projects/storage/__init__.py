"""S3-compatible storages of projects, whose keys are encrypted in the database."""

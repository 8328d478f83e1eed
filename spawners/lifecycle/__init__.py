"""A session's job from submission to its end, and what is recorded of it."""

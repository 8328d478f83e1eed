"""Answer to "Why is my GPU waiting?": what the session's programs do for some seconds, in a
sentence with numbers."""

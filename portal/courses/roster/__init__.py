"""Who is in a course, and who has an account to take part."""

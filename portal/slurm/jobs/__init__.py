"""One job: submitted, its log, and its end."""

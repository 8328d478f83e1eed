"""Home: the first page, whose parts come from features. Its own are of sessions and of the site."""

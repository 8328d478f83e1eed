"""Sessions by the API: what is shown of them, done to them and told by them."""

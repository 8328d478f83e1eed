"""What the jobs do with images: build, test, unpack."""

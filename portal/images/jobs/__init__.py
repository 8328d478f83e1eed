"""Jobs on images: build, test, unpack."""

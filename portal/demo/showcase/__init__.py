"""Showcase of the demo: environments with frameworks, a made up past, a README notebook."""

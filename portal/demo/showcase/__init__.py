"""What the demo shows beyond its bare environments: frameworks, a past, a README notebook."""

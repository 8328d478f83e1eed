"""TensorBoard beside a session."""

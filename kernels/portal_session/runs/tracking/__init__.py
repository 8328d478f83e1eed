"""Metrics that a point tells by other means than ``portal_metrics``: TensorBoard's event files and
MLflow's client. Both become lines of the point's metrics.jsonl."""

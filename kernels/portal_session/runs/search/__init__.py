"""Search of a run's parameters: what portal-run reads of it, and the question of a point for its
own. The portal chooses (portal/work/run/results/trials.py)."""

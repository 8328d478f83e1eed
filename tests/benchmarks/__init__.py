"""``make bench``: what the portal costs, beside what it stands on, on the real demo.

Each module measures one thing; ``__main__`` starts the demo's cluster and runs them in turn.
"""

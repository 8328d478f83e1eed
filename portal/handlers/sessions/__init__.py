"""Session endpoints: views, actions, and reports by the sessions themselves."""

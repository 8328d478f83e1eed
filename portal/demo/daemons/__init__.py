"""The demo's daemons: the Hub, LDAP, Slurm, and how each is kept running."""

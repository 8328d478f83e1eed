"""The demo's daemons (the Hub, LDAP, Slurm) and their supervision."""

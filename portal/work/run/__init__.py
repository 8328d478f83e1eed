"""Work of runs: notebooks and scripts that are executed for many points."""

"""Results of runs: values of points, their order, comparisons and searches."""

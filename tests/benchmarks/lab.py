def measure(cluster):
    raise NotImplementedError

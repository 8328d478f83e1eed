"""A launch, without I/O: the request, the policy that judges it, and the argv it becomes."""

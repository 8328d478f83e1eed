"""Health of the site's parts, for admins, monitoring and load balancers."""

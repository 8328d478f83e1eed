"""Pages and REST API of the service, one module per resource."""

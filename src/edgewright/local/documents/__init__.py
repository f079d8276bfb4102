"""What the API server publishes about itself: discovery and OpenAPI, as functions of the kinds that it serves."""

"""JSON Schema and what Kubernetes checks beside it: violations, and the sentences for them."""

"""GitOps: configuration of Argo CD and Flux, packaged charts, published branches, comments."""

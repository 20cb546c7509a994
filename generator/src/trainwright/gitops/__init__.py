"""Between a repository and what syncs it: Argo CD, Flux, charts, published branches, comments."""

"""A new GitOps repository: what its files say, and their writing where there is nothing yet.

Answers ── files/ with @@names replaced ──▶ {path: text} ──▶ folder
"""

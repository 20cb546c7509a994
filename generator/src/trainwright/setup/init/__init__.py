"""A new GitOps repository: the content of its files, and writing those that do not exist yet.

Answers ── files/ with @@names replaced ──▶ {path: text} ──▶ folder
"""

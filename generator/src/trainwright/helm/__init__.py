"""Helm: its SDK, the engines that render with it, and the chart that they render."""

"""A standing campaign against hostile input: ``python -m fuzz``; see CONTRIBUTING.md."""

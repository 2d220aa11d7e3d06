"""A report on a field: its features, its network, and its predictions on data, as one HTML document."""

"""What a field has learned, to read and to look at: its features, its network, and how it fares on data.

Each part is a small module without HTML; `page` makes one document of them all.
"""

"""Tools around the library: tables, pages, command line, datasets and the demo."""

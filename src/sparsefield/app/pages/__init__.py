"""This package draws fields as pages and pictures, in SVG and HTML, without a drawing library."""

"""Pages and pictures of fields, as SVG and HTML without a drawing library."""

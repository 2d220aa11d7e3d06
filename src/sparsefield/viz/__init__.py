"""Pictures and pages to look at: plain SVG and HTML, made without a drawing library."""

"""Pages and figures about fitted fields: HTML by Jinja2 templates, pictures by matplotlib."""

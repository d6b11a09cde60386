"""The docs site: its reference pages, made from the code, and the hooks of mkdocs that add them."""

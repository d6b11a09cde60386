"""The server: the API over HTTP, its live events, metrics and the dashboard.

Needs the extra: pip install 'taskyard[server]'.
"""

"""The PostgreSQL store: tables in one schema, one function a verb."""

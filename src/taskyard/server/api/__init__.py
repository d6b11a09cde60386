"""What can be asked over HTTP: one file for each thing the routes are about."""

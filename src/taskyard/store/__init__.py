"""Where tasks live: the port, and one package for each store that implements it."""

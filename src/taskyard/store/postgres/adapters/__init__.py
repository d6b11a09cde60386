"""How one statement goes through the connections of others: a file a driver, none imported here."""

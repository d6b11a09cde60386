"""The store on a Redis or Valkey server: one Lua script a verb, in lua/."""

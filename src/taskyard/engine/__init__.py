"""Runs tasks on a store."""

"""What a yard can be asked: one file for each thing the verbs are about."""

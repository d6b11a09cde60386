"""One side of a comparison a file, run as a script: peers.toml says how, and who takes part."""

"""What the hero sees from where he stands, and what he remembers: bit-parallel, and on the GPU."""

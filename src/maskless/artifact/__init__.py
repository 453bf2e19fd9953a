"""What a policy is as data, on the disk and in memory: everything about it that needs no JAX."""

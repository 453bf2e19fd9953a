"""What the hero sees."""

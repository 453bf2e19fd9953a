"""What the agent gets to see: glyphs, messages, observations."""

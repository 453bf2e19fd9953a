"""What the agent is shown: glyphs, messages, and the observation, as in NLE."""

"""PPO under masks, with a feasibility classifier beside it."""

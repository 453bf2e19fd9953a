"""The rules: dice, the hero's body, what actions do, one step, masks, and the terminal view."""

"""The rules of the game: actions, dice, the hero, a step."""

"""Policies outside training: the artifact, and acting with predicted masks."""

"""Gymnasium's environments: described here, played in worker processes."""

"""Playing complete episodes of trained policies: evaluation, audit, calibration."""

"""What keeps a training run safe and readable: checkpoints, logs, signals, the progress display.

Independent modules that the training loop calls between its compiled chunks. One program trains
many runs; `runs/NAME/` is its folder and each run has its own, self-contained one below it:

    runs/NAME/config.json
    runs/NAME/masked-kl/seed-0/metrics.jsonl
    runs/NAME/masked-kl/seed-0/checkpoints/update-000120/
    runs/NAME/masked-kl/seed-0/policy/
"""

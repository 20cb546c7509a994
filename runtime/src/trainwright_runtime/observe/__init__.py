"""What a training tells of itself, without secrets: log, journal, goodput, TrainJob status."""

"""What a training reports, without secrets: log, journal, goodput, status of the TrainJob."""

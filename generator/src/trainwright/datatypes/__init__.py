"""The types that everything else uses, and how they are read from data and text."""

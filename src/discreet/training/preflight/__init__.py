"""What is checked before a run sees a private row."""

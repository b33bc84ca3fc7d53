"""The output of commands: text and pictures."""

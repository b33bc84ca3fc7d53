"""What a publisher discloses beside the proof: a privacy statement for people, a record for a public registry."""

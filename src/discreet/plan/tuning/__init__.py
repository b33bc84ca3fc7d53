"""Plans that choose among candidates."""

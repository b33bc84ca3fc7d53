"""Commands for accounting; they train nothing."""

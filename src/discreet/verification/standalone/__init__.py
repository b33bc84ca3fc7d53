"""For a reviewer who installs nothing: one file that checks a published folder."""

"""Charts of report and statement, as SVG."""

"""Files of tables in all formats: opened, decoded and cut into blocks of whole rows."""

"""Files of tables: opened, decoded and cut into blocks of whole rows, whatever they were written by."""

"""Jobs on tables and folders of images: schema, private rows, public rows, loss and metrics."""

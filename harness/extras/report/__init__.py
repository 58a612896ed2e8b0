"""The report: all records of one GPU as one HTML file that needs nothing else, neither network nor server."""

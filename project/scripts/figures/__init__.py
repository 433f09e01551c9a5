"""These scripts make tables and pictures of the runs' figures."""

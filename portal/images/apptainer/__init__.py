"""Access to Apptainer, its definition files and its signatures."""

"""The demo's environments: Apptainer, a container image, a virtual environment and modules."""

"""Scripts of the project. Run them in `project/`: `python -m scripts.FOLDER.NAME`."""
